package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func TestEncodeKeepsNamesOrderAndFalse(t *testing.T) {
	raw, err := JSON(&holdfastv1.Condition{Type: "InCustomerCluster", Reason: "NotJoined"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"type":"InCustomerCluster","status":false,"reason":"NotJoined","unknown":false,"message":"",` +
		`"subject":""}`; string(
		raw) != want {
		t.Errorf("got JSON %s, want %s", raw, want)
	}
	text, err := YAML(raw)
	want := "type: InCustomerCluster\nstatus: false\nreason: NotJoined\nunknown: false\nmessage: \"\"\nsubject: \"\"\n"
	if err != nil || string(text) != want {
		t.Errorf("got YAML %q (%v), want %q", text, err, want)
	}
}

// All output can be used as input.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		want := []*holdfastv1.Machine{{
			MachineId: text.Draw(t, "id"),
			Labels:    rapid.MapOf(text, text).Draw(t, "labels"),
			Spec:      &holdfastv1.MachineSpec{Rack: text.Draw(t, "rack"), MacAddresses: rapid.SliceOf(text).Draw(t, "macs")},
			Revision:  rapid.Uint64().Draw(t, "revision"),
		}}
		raw, err := List("machines", want)
		if err != nil {
			t.Fatal(err)
		}
		asYAML, err := YAML(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{raw, asYAML} {
			got, err := Decode([]Source{{"f", data}}, "machines", newMachine)
			if err != nil {
				t.Fatalf("decode %q: %v", data, err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Fatalf("decode %q (-want +got):\n%s", data, diff)
			}
		}
	})
}
