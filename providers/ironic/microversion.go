package ironic

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/holdfast-metal/holdfast/providers"
)

// The supported microversions (Ironic's REST API version history). The oldest one has everything
// that this package needs: config drives as JSON.
const (
	leastVersion  = 56 // 1.56, Train (2019)
	bootVersion   = 75 // adds the boot mode of a node
	stockVersion  = 81 // adds the inventory of a node
	newestVersion = 81 // newest one that this package supports
)

// negotiate reads the server's microversions and picks the newest one that both sides support. It
// needs no login.
func negotiate(ctx context.Context, c *gophercloud.ServiceClient) error {
	const op = "read the versions of Ironic"
	root := *c
	root.ResourceBase, root.Microversion = c.Endpoint, ""
	all, err := apiversions.List(ctx, &root).Extract()
	if err != nil {
		if status(err) == http.StatusNotFound || errors.Is(err, errNoIronic) {
			return providers.Errorf(providers.Unsupported, op, "%w at the endpoint", errNoIronic)
		}
		return err
	}
	v := all.DefaultVersion
	for _, o := range all.Versions {
		if o.ID == "v1" {
			v = o
		}
	}
	most, minor, err := utils.ParseMicroversion(v.Version)
	_, least, err2 := utils.ParseMicroversion(v.MinVersion)
	if err != nil || err2 != nil || most != 1 {
		return providers.Errorf(providers.Unsupported, op,
			"%w at the endpoint (it reports version %q)", errNoIronic, clip(v.Version))
	}
	take := min(minor, newestVersion)
	if take < leastVersion || take < least {
		return providers.Errorf(providers.Unsupported, op,
			"it supports %s to %s, and this provider 1.%d to 1.%d",
			clip(v.MinVersion), clip(v.Version), leastVersion, newestVersion)
	}
	c.Microversion = fmt.Sprintf("1.%d", take)
	return nil
}

// speaks reports whether a client uses at least a microversion.
func speaks(c *gophercloud.ServiceClient, minor int) bool {
	_, have, err := utils.ParseMicroversion(c.Microversion)
	return err == nil && have >= minor
}
