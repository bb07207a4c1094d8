package rival

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestEtcdTransaction compares the bytes with those of protoc for the same transaction of etcd's
// rpc.proto.
func TestEtcdTransaction(t *testing.T) {
	got := EtcdIfNew([]string{"a"}, []string{"a", "b"}, []byte("v"))
	want := []byte{
		0x0a, 0x07, 0x10, 0x01, 0x1a, 0x01, 'a', 0x28, 0x00, // compare: target CREATE, key a, create_revision 0
		0x12, 0x08, 0x12, 0x06, 0x0a, 0x01, 'a', 0x12, 0x01, 'v', // success: put a
		0x12, 0x08, 0x12, 0x06, 0x0a, 0x01, 'b', 0x12, 0x01, 'v', // success: put b
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestEtcdFields(t *testing.T) {
	answer := etcdBytes(nil, 1, []byte{0x10, 0x07})
	answer = protowire.AppendVarint(protowire.AppendTag(answer, 4, protowire.VarintType), 7)
	answer = protowire.AppendFixed32(protowire.AppendTag(answer, 9, protowire.Fixed32Type), 1) // of a later version
	fields, err := etcdFields(answer)
	if err != nil {
		t.Fatal(err)
	}
	header, err := etcdFields(fields[1].bytes)
	if err != nil || header[2].number != 7 || fields[4].number != 7 {
		t.Errorf("got %v and %v (%v)", fields, header, err)
	}
}

func FuzzEtcdFields(f *testing.F) {
	f.Add(EtcdIfNew([]string{"a"}, []string{"b"}, nil))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := etcdFields(b)
		for num, field := range fields {
			if len(field.bytes) > len(b) {
				t.Errorf("field %d: got %d bytes of %d (%v)", num, len(field.bytes), len(b), err)
			}
		}
	})
}
