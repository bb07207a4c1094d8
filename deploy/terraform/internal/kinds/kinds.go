// Package kinds has the kinds of resources of the provider: their attributes, and the requests that
// store them. They are those of `holdfast apply -f`, and secrets and webhooks.
//
// No kind operates hardware or starts a run: the effects of `terraform apply` end in the inventory.
package kinds

import (
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/fsm"
)

// All returns the constructors of all resources.
func All() []func() resource.Resource {
	return []func() resource.Resource{
		crud.New(machineKind()), crud.New(poolKind()), crud.New(planKind()),
		crud.New(imageKind()), crud.New(secretKind()), crud.New(webhookKind()),
	}
}

// violations converts the results of the server's own checks.
func violations(in []fsm.FieldViolation) []crud.Violation {
	var out []crud.Violation
	for _, v := range in {
		out = append(out, crud.Violation{Field: v.Field, Text: v.Description})
	}
	return out
}

// filled passes the answer of a call to fill, unless the call failed, and returns the call's error.
func filled[L any](fill func(L), live L, err error) error {
	if err == nil {
		fill(live)
	}
	return err
}

func required(text string) schema.StringAttribute {
	return schema.StringAttribute{Required: true, Description: text}
}

func optional(text string) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Description: text}
}

func optionalMap(text string) schema.MapAttribute {
	return schema.MapAttribute{Optional: true, ElementType: types.StringType, Description: text}
}

func optionalSet(text string) schema.SetAttribute {
	return schema.SetAttribute{Optional: true, ElementType: types.StringType, Description: text}
}
