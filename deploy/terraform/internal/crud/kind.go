// Package crud implements the operations of Terraform's resources for any kind of resource: create,
// read, update, delete, import, checks of the configuration, and previews in a plan. It converts
// errors of the client to diagnostics.
//
// A Kind has everything that differs between kinds. The package knows none of them.
package crud

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource/schema"

	"github.com/holdfast-metal/holdfast/client"
)

// Kind is a kind of resource. M is the model of its attributes. Errors are those of the client:
// NOT_FOUND means that the resource is gone.
type Kind[M any] struct {
	Name   string // machine, of holdfast_machine
	Key    string // the attribute with the id: machine_id
	Schema schema.Schema
	ID     func(*M) string // empty while it is unknown
	Empty  func(id string) M

	// Read replaces the attributes of m with those of the server. All is set if it must also read
	// the attributes that m omits.
	Read func(ctx context.Context, c *client.Client, m *M, all bool) error
	// Create and Update store the planned m. The configuration also has write-only attributes.
	Create func(ctx context.Context, c *client.Client, m, config *M) error
	Update func(ctx context.Context, c *client.Client, was, m, config *M) error
	Delete func(ctx context.Context, c *client.Client, m *M) error

	// The rest is optional.

	// Upsert is set if the server's request for Create changes a resource that exists. Create then
	// refuses one that exists.
	Upsert bool
	// Rename maps a field of the API to an attribute with another name.
	Rename map[string]string
	// Check returns the violations of a configuration, without a server. Unknown attributes are
	// empty.
	Check func(m *M) []Violation
	// Complete sets the computed attributes of a plan that follow from others.
	Complete func(m *M)
	// Preview returns the error with which the server would refuse a change. If the resource is
	// new, was is nil.
	Preview func(ctx context.Context, c *client.Client, was, m *M) error
	// MayDelete returns an error if the resource must not be deleted now. Plans show it too.
	MayDelete func(ctx context.Context, c *client.Client, m *M) error
	// Retained returns a warning if err, of Delete, means that the server keeps the resource for
	// good and Terraform may forget it.
	Retained func(m *M, err error) string
}

// Violation is a wrong value.
type Violation struct {
	Field string // as in the API, e.g. machine.spec.mac_addresses[0]
	Text  string
}
