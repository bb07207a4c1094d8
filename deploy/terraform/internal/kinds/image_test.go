package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/deploy/terraform/internal/crud"
	"github.com/holdfast-metal/holdfast/fsm"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestImage(t *testing.T) {
	full := &holdfastv1.Image{Name: "debian", Description: "d", Arch: "arm64", Format: holdfastv1.Image_QCOW2,
		Compression: holdfastv1.Image_ZSTD, Disk: &holdfastv1.Image_File{Url: "https://x/d", Sha256: "ab", SizeBytes: 7},
		Kernel: &holdfastv1.Image_File{Sha256: "cd"}, Initrd: &holdfastv1.Image_File{Sha256: "ef"}, Cmdline: "quiet"}
	i := imageKind().Empty("debian")
	i.fill(full)
	got, bad := i.proto()
	if diff := cmp.Diff(full, got, protocmp.Transform()); diff != "" || bad != nil {
		t.Errorf("got violations %v, image (-want +got):\n%s", bad, diff)
	}
	// Omitted attributes stay null while the server has their defaults.
	short := imageKind().Empty("debian")
	short.Disk = types.ObjectValueMust(fileTypes(), map[string]attr.Value{"url": types.StringValue("https://x/d"),
		"sha256": types.StringValue("ab"), "size_bytes": types.Int64Null()})
	short.Compression = types.StringValue("gzip")
	want := short
	in, _ := short.proto()
	short.fill(fsm.NormalImage(in))
	if diff := cmp.Diff(want, short); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	short.Format = types.StringValue("VMDK")
	_, bad = short.proto()
	if diff := cmp.Diff([]crud.Violation{{Field: "format", Text: "is not one of RAW, QCOW2, TAR"}}, bad); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestWebhook(t *testing.T) {
	full := &holdfastv1.Webhook{Name: "pager", Url: "https://x/y", Filter: "f", SecretRef: "s", Disabled: true}
	w := webhookKind().Empty("pager")
	w.fill(full)
	if diff := cmp.Diff(full, w.proto(), protocmp.Transform()); diff != "" {
		t.Errorf("webhook (-want +got):\n%s", diff)
	}
	w = webhookKind().Empty("pager")
	w.fill(&holdfastv1.Webhook{Name: "pager", Url: "https://x/y"})
	if !w.Filter.IsNull() || !w.SecretRef.IsNull() || !w.Disabled.IsNull() {
		t.Errorf("defaults: got %+v, want null", w)
	}
}
