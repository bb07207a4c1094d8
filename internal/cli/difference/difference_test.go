package difference

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestBetween(t *testing.T) {
	reboot := &holdfastv1.Step{Name: "a", MaxRetries: proto.Int32(0),
		Kind: &holdfastv1.Step_Reboot{Reboot: &holdfastv1.Reboot{}}}
	repave := &holdfastv1.Step{Name: "a", TimeoutSeconds: 60,
		Kind: &holdfastv1.Step_Repave{Repave: &holdfastv1.RepaveImage{Image: "debian", Wipe: true}}}
	for _, tt := range []struct {
		name     string
		was, now proto.Message
		want     []string
	}{
		{"the same", &holdfastv1.Plan{Steps: []*holdfastv1.Step{repave}},
			&holdfastv1.Plan{Steps: []*holdfastv1.Step{repave}}, nil},
		{"texts, lists and maps", &holdfastv1.Machine{Labels: map[string]string{"b": "1", "a": "x", "c": "2"},
			Spec: &holdfastv1.MachineSpec{Rack: "r7", MacAddresses: []string{"m"}}},
			&holdfastv1.Machine{Labels: map[string]string{"a": "y", "c": "2", "d": ""},
				Spec: &holdfastv1.MachineSpec{Rack: "r8", Serial: "s", MacAddresses: []string{"m", "n"}}},
			[]string{`labels.a: "x" → "y"`, `labels.b: "1" → (none)`, `labels.d: (none) → ""`,
				`spec.rack: "r7" → "r8"`, `spec.serial: (none) → "s"`, `spec.mac_addresses: ["m"] → ["m", "n"]`}},
		{"added message", &holdfastv1.Image{}, &holdfastv1.Image{Format: holdfastv1.Image_RAW,
			Disk: &holdfastv1.Image_File{SizeBytes: 7}},
			[]string{"format: (none) → RAW", "disk.size_bytes: (none) → 7"}},
		{"another kind of step", &holdfastv1.Plan{Steps: []*holdfastv1.Step{repave}},
			&holdfastv1.Plan{Steps: []*holdfastv1.Step{reboot}},
			[]string{"steps[0].timeout_seconds: 60 → (none)", "steps[0].max_retries: (none) → 0",
				"steps[0].reboot: (none) → {}", `steps[0].repave.image: "debian" → (none)`, "steps[0].repave.wipe: true → (none)"}},
		{"steps more and less", &holdfastv1.Plan{Steps: []*holdfastv1.Step{reboot}},
			&holdfastv1.Plan{Steps: []*holdfastv1.Step{reboot, {Name: "b"}, {}}},
			[]string{`steps[1].name: (none) → "b"`, "steps[2]: (none) → {}"}},
		{"removed step", &holdfastv1.Plan{Steps: []*holdfastv1.Step{reboot, {Name: "b"}}},
			&holdfastv1.Plan{Steps: []*holdfastv1.Step{reboot}}, []string{`steps[1].name: "b" → (none)`}},
	} {
		var got []string
		for _, c := range Between(tt.was.ProtoReflect(), tt.now.ProtoReflect()) {
			got = append(got, c.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%s", tt.name, diff, strings.Join(got, "\n"))
		}
	}
}
