package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func mixedKinds() []Kind {
	return []Kind{
		{"pools", "pool_id", func() proto.Message { return &holdfastv1.Pool{} }},
		{"images", "name", func() proto.Message { return &holdfastv1.Image{} }},
		{"plans", "plan_id", func() proto.Message { return &holdfastv1.Plan{} }},
		{"machines", "machine_id", func() proto.Message { return &holdfastv1.Machine{} }},
	}
}

func TestMixed(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"machine_id: m-1\n---\npool_id: p\n---\nplan_id: x\nsteps: [{name: a, reboot: {}}]\n---\nname: debian\n",
			"p|debian|x|m-1"},
		{"machines:\n- machine_id: m-1\n- machineId: m-2\npools:\n- pool_id: p\n", "p|||m-1 m-2"},
		{"- pool_id: p\n- machine_id: m-1\n- pool_id: q\n", "p q|||m-1"},
		{`{"images": [{"name": "a"}]} {"machine_id": "m-1"}`, "|a||m-1"},
	} {
		out, err := Mixed([]Source{{"f", []byte(tt.in)}}, mixedKinds())
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		var got []string
		for k, ms := range out {
			var ids []string
			for _, m := range ms {
				r := m.ProtoReflect()
				ids = append(ids, r.Get(r.Descriptor().Fields().ByTextName(mixedKinds()[k].ID)).String())
			}
			got = append(got, strings.Join(ids, " "))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.in, diff)
		}
	}
	for in, want := range map[string]string{
		"spec: {rack: r7}\n": "f:1: the document has no id: give it one of pool_id, " +
			"name, plan_id, machine_id",
		"machines:\n- spec: {}\n": "f:2: the document has no id: give it one of machine_id",
		"machine_id: ''\n": "f:1: the document has no id: give it one of pool_id, " +
			"name, plan_id, machine_id",
		"machine_id: m\nrak: r7\n": `f:2: unknown key "rak": want one of machine_id, labels, spec, status, ` +
			"created_at, updated_at, revision, node, agent, hardware, hardware_summary",
		"machine_id: m\n---\npool_id: m\n---\nmachine_id: m\n": `f:5: duplicate machine_id "m": first in f:1`,
		"just text\n": "f:1: the document has no keys: a document begins with one of pool_id, name, plan_id, machine_id" +
			`, such as "machine_id: m-1"`,
		"pool_id: a\nmachine_id: b\n": "f:2: the document has pool_id and machine_id: it is one or the other: put --- " +
			"between two documents",
		"\x00\xff\xfe\x01": "f:1: this is not text: is it another file, or a compressed one?",
		"---\n":            "f: there is no document in it: see: holdfast explain machine",
	} {
		if _, err := Mixed([]Source{{"f", []byte(in)}}, mixedKinds()); err == nil || err.Error() != want {
			t.Errorf("%q: got error %v, want %s", in, err, want)
		}
	}
}
