package table

import (
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestFindSystem(t *testing.T) {
	signed := mbrImage(0x83)
	copy(signed[440:], "\x01\x02\x03\x04")
	for name, tt := range map[string]struct {
		image []byte
		want  System
		ok    bool
	}{
		"MBR":      {signed, System{Partition: 2, Start: 2048, Count: 2048, ID: [16]byte{1, 2, 3, 4}}, true},
		"no table": {make([]byte, imageSize), System{}, false},
	} {
		got, ok, err := FindSystem(disk(t, tt.image))
		if err != nil || ok != tt.ok {
			t.Errorf("%s: got %v, %v, want %v", name, ok, err, tt.ok)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	f := disk(t, gptImage(t))
	read, err := gpt.Read(f, sector, sector)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := FindSystem(f)
	if err != nil || !ok || got.Partition != 1 || got.Start != 2048 || got.Count != 2048 || !got.GPT {
		t.Errorf("GPT: got %+v, %v, %v", got, ok, err)
	}
	// The number is in the table in the wanted byte order.
	raw := make([]byte, 16)
	if _, err := f.ReadAt(raw, 2*sector+16); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(raw, got.ID[:]); diff != "" {
		t.Errorf("number of the partition (-on disk +got):\n%s", diff)
	}
	if id := uuid.MustParse(read.Partitions[0].GUID); got.ID[3] != id[0] || got.ID[15] != id[15] {
		t.Errorf("got number %x, want that of %s", got.ID, id)
	}
}
