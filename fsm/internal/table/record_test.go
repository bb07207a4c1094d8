package table_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// TestRowsAreShared checks that a read returns the stored message, that Edit returns a copy,
// and that both still return the same contents once the row is encoded.
func TestRowsAreShared(t *testing.T) {
	for _, decoded := range []bool{false, true} {
		s := schema.Machines()
		s.Decoded = decoded
		tab := table.New(s)
		m := &holdfastv1.Machine{MachineId: "m-1", Labels: map[string]string{"a": "b"}}
		want := proto.CloneOf(m)
		tab.Put(m)
		if got, _ := tab.Get("m-1"); got != m {
			t.Errorf("decoded %v: Get returns %p, want the stored message %p", decoded, got, m)
		}
		for _, when := range []string{"before", "after"} {
			mine, _ := tab.Edit("m-1")
			mine.Labels["a"] = "x"
			if again, _ := tab.Edit("m-1"); mine == m || again.GetLabels()["a"] != "b" {
				t.Errorf("decoded %v, %s encoding: Edit returns a shared message", decoded, when)
			}
			got, _ := tab.Get("m-1")
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("decoded %v, %s encoding (-want +got):\n%s", decoded, when, diff)
			}
			encode(tab)
		}
		again, _ := tab.Get("m-1")
		if same := again == m; same != decoded {
			t.Errorf("decoded %v: the message is kept after encoding: got %v, want %v", decoded, same, decoded)
		}
	}
}

// encode reads the bytes of all rows.
func encode(tab *table.Table[*holdfastv1.Machine]) {
	for range tab.Find(table.Query{Texts: []string{"no row has this"}}, "") {
		return
	}
}

// TestRowsAreEncodedOnce encodes and reads rows concurrently, in copies of a table (-race).
func TestRowsAreEncodedOnce(t *testing.T) {
	tab := table.New(schema.Machines())
	for i := range 300 {
		tab.Put(row(fmt.Sprintf("m-%03d", i), "x"))
	}
	var all sync.WaitGroup
	for range 4 {
		view := tab.Copy()
		all.Go(func() { encode(view) })
		all.Go(func() {
			for m := range view.Ascend("", "") {
				if m.GetLabels()["a"] != "x" {
					t.Errorf("got %v", m)
				}
			}
		})
	}
	all.Wait()
}
