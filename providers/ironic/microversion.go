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

// The microversions that are spoken (Ironic's REST API version history). The least has all that is
// relied on: config drives as JSON.
const (
	leastVersion  = 56 // 1.56, Train (2019)
	bootVersion   = 75 // the boot mode of a node
	stockVersion  = 81 // the inventory of a node
	newestVersion = 81 // what this package was written for
)

// negotiate asks which microversions there are, and takes the newest that both sides know. That
// needs no login.
func negotiate(ctx context.Context, c *gophercloud.ServiceClient) error {
	const op = "ask Ironic for its versions"
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
		return providers.Errorf(providers.Unsupported, op, "%w at the endpoint (it speaks of version %q)", errNoIronic, clip(v.Version))
	}
	take := min(minor, newestVersion)
	if take < leastVersion || take < least {
		return providers.Errorf(providers.Unsupported, op, "it speaks %s to %s, and this provider 1.%d to 1.%d", clip(v.MinVersion), clip(v.Version), leastVersion, newestVersion)
	}
	c.Microversion = fmt.Sprintf("1.%d", take)
	return nil
}

// speaks reports whether a client speaks at least a microversion.
func speaks(c *gophercloud.ServiceClient, minor int) bool {
	_, have, err := utils.ParseMicroversion(c.Microversion)
	return err == nil && have >= minor
}
