package table

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// FuzzRecord compares the hand-written encoding and decoding with the generated code.
func FuzzRecord(f *testing.F) {
	for _, r := range []*internalv1.SnapshotRecord{{}, {Table: 1, Key: "k", Value: []byte("v")},
		{Table: 300, Value: make([]byte, 300)}} {
		raw, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, raw := range []string{"\x08", "\x12\x02a", "\x12\x01\xff", "\x10\x01", "\x7a\x00",
		"\x08\x01\x08\x02\x12\x01a\x12\x01b", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"\x88\x92\xca\x83\x30\x33", // a field number that no message may have
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind, key, value, err := parseRecord(raw)
		var want internalv1.SnapshotRecord
		if werr := proto.Unmarshal(raw, &want); (err == nil) != (werr == nil) {
			t.Fatalf("%x: got %v, want %v", raw, err, werr)
		} else if err != nil {
			return
		}
		if kind != want.GetTable() || string(key) != want.GetKey() || !bytes.Equal(value, want.GetValue()) {
			t.Fatalf("%x: got %v, %q, %x, want %v", raw, kind, key, value, &want)
		}
		if kind < 0 {
			return
		}
		var b bytes.Buffer
		want.ProtoReflect().SetUnknown(nil)
		if _, err := protodelim.MarshalTo(&b, &want); err != nil {
			t.Fatal(err)
		}
		if got := appendRecord(nil, kind, string(key), value); !bytes.Equal(got, b.Bytes()) {
			t.Fatalf("wrote %x, want %x", got, b.Bytes())
		}
	})
}
