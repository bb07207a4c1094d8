package edge_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
	"github.com/holdfast-metal/holdfast/server/egress"
	"github.com/holdfast-metal/holdfast/server/internal/edge"
)

// TestDeniedURLs checks that a URL of a denied network is found in any text of a request.
func TestDeniedURLs(t *testing.T) {
	policy, err := egress.New(egress.Default())
	if err != nil {
		t.Fatal(err)
	}
	const bad, good = "http://169.254.169.254/latest", "https://images.example/a.iso"
	media := func(url string) *holdfastv1.Step {
		return &holdfastv1.Step{Kind: &holdfastv1.Step_Media{Media: &holdfastv1.Media{Url: url}}}
	}
	for _, tt := range []struct {
		field string
		m     proto.Message
		want  []string
	}{
		{"webhook", &holdfastv1.Webhook{Url: bad}, []string{"webhook.url"}},
		{"webhook", &holdfastv1.Webhook{Url: good}, nil},
		{"webhook", &holdfastv1.Webhook{Filter: "169.254.169.254"}, nil}, // not a URL
		{"image", &holdfastv1.Image{Disk: &holdfastv1.Image_File{Url: good}, Initrd: &holdfastv1.Image_File{Url: bad}},
			[]string{"image.initrd.url"}},
		{"plan", &holdfastv1.Plan{Steps: []*holdfastv1.Step{media(good), media(bad)}},
			[]string{"plan.steps[1].media.url"}},
		{"", &internalv1.StartRun{Params: map[string]string{"b": bad, "a": bad, "c": good}},
			[]string{"params.a", "params.b"}},
	} {
		var got []string
		for _, v := range (&edge.Peer{DenyURL: policy.CheckURL}).DeniedURLs(tt.field, tt.m) {
			got = append(got, v.Field)
			if !strings.Contains(v.Description, "169.254.169.254") || !strings.Contains(v.Description, "--deny-urls") {
				t.Errorf("%v: got %q, want the address and the setting in it", tt.m, v.Description)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v: fields (-want +got):\n%s", tt.m, diff)
		}
	}
	if got := (&edge.Peer{}).DeniedURLs("webhook", &holdfastv1.Webhook{Url: bad}); got != nil {
		t.Errorf("without a policy: got %v, want none", got)
	}
}
