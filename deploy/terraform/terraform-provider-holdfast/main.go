// Command terraform-provider-holdfast is the Terraform provider of Holdfast (docs/terraform.md).
// Terraform starts it; it only serves package provider.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/provider"
)

// version is set by the linker.
var version = "dev"

func main() {
	err := providerserver.Serve(context.Background(), provider.New(version, os.Getenv), providerserver.ServeOpts{
		Address: "registry.terraform.io/holdfast-metal/holdfast",
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve the provider:", err)
		os.Exit(1)
	}
}
