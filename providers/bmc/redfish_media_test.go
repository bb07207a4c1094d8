package bmc_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
)

// Makers require and refuse different properties in the request that inserts an image.
func TestInsertProperties(t *testing.T) {
	t.Parallel()
	cd := []string{"CD", "DVD"}
	for _, c := range []struct {
		name  string
		slots []redfishtest.Slot
		quirk func(*redfishtest.Quirks)
		class providers.Class // empty: success
	}{
		{name: "the image alone", quirk: func(q *redfishtest.Quirks) { q.MediaStrict = true }},
		{name: "the protocol", quirk: func(q *redfishtest.Quirks) {
			q.MediaStrict, q.MediaNeeds = true,
				[]string{"TransferProtocolType"}
		}},
		{name: "the method", quirk: func(q *redfishtest.Quirks) { q.MediaNeeds = []string{"TransferMethod"} }},
		{name: "both", quirk: func(q *redfishtest.Quirks) {
			q.MediaNeeds = []string{"TransferProtocolType",
				"TransferMethod"}
		}},
		{name: "a password", quirk: func(q *redfishtest.Quirks) { q.MediaNeeds = []string{"Password"} },
			class: providers.Transient},
		{name: "by PATCH", slots: []redfishtest.Slot{{ID: "EXT1", Types: cd, Patch: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{Slots: c.slots}, redfishOnly)
			if c.quirk != nil {
				l.s.Set(c.quirk)
			}
			err := l.p.InsertMedia(l.ctx, op("media"), l.m, iso)
			if c.class != "" {
				l.class("insert", err, c.class)
				return
			}
			l.ok("insert", err)
			l.ok("eject", l.p.EjectMedia(l.ctx, op("media"), l.m))
			if diff := cmp.Diff([]string{"media_insert " + iso, "media_eject " + iso}, l.effects("")); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

// Each request that inserts an image is sent in time or not at all, and one that needs three tries
// at a slow BMC is not late in every attempt.
func TestInsertPropertiesAreRemembered(t *testing.T) {
	t.Parallel()
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) {
		q.Latency, q.MediaNeeds = 200*time.Millisecond, []string{"TransferProtocolType", "TransferMethod"}
	})
	for began := time.Now(); ; {
		err := l.p.InsertMedia(providers.WithNotAfter(l.ctx, time.Now().Add(300*time.Millisecond)), op("media"), l.m, iso)
		if err == nil {
			break
		}
		l.class("insert", err, providers.Late)
		if len(l.effects("")) > 0 || time.Since(began) > 20*time.Second {
			t.Fatalf("got effects %v after %v, but an error that nothing was done", l.effects(""), time.Since(began))
		}
	}
	if diff := cmp.Diff([]string{"media_insert " + iso}, l.effects("")); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// An image is inserted into a suitable slot, and the next leader finds it there.
func TestSlotForImage(t *testing.T) {
	t.Parallel()
	cd, floppy := []string{"CD", "DVD"}, []string{"Floppy", "USBStick"}
	dead := func(id string) redfishtest.Slot { return redfishtest.Slot{ID: id, Types: cd, Patch: true, Local: true} }
	for _, c := range []struct {
		name  string
		slots []redfishtest.Slot
		want  string // empty: no slot
	}{
		{"a CD, not a floppy", []redfishtest.Slot{{ID: "Floppy1", Types: floppy}, {ID: "Cd1", Types: cd},
			{ID: "Cd2", Types: cd}}, "Cd1"},
		{"slot without types", []redfishtest.Slot{{ID: "Floppy1", Types: floppy}, {ID: "Any"}}, "Any"},
		{"with an action, not without", []redfishtest.Slot{dead("1"), {ID: "2", Types: cd, Patch: true},
			{ID: "3", Types: cd}}, "3"},
		{"slot that hides its action while it is full", []redfishtest.Slot{{ID: "1", Types: cd, Hides: true},
			{ID: "2", Types: cd}}, "1"},
		{"of a Lenovo", []redfishtest.Slot{dead("RDOC1"), dead("RDOC2"), {ID: "EXT1", Types: cd, Patch: true},
			{ID: "EXT2", Types: cd, Patch: true}}, "EXT1"},
		{"without actions", []redfishtest.Slot{{ID: "Floppy1", Types: floppy}, {ID: "a", Types: cd, Patch: true},
			{ID: "b", Types: cd, Patch: true}}, "a"},
		{"floppies alone", []redfishtest.Slot{{ID: "Floppy1", Types: floppy}, {ID: "EXT1", Types: floppy, Patch: true}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{Slots: c.slots}, redfishOnly)
			err := l.p.InsertMedia(l.ctx, op("media"), l.m, iso)
			if c.want == "" {
				l.class("insert", err, providers.Unsupported)
				return
			}
			l.ok("insert", err)
			if got := l.s.Inserted("1"); got != c.want {
				t.Errorf("slot of the image: got %q, want %q", got, c.want)
			}
			next := l.provider(redfishOnly)
			if got, err := next.Media(l.ctx, l.m); err != nil || got != iso {
				t.Errorf("next leader: got %q (%v), want %q", got, err, iso)
			}
			l.ok("eject", next.EjectMedia(l.ctx, op("media"), l.m))
			if got := l.s.Inserted("1"); got != "" {
				t.Errorf("got an image left in %q", got)
			}
		})
	}
}

// A slot that no longer exists is looked up under another name. Without any slot, the BMC may be
// starting.
func TestVanishedSlot(t *testing.T) {
	t.Parallel()
	slots := []redfishtest.Slot{{ID: "Cd1", Types: []string{"CD"}}}
	for name, c := range map[string]struct {
		goes  func(*redfishtest.Service)
		class providers.Class // empty: success
	}{
		"it has another name": {func(s *redfishtest.Service) { s.RenameSlot("Cd1", "1") }, ""},
		"the BMC starts": {func(s *redfishtest.Service) {
			s.Set(func(q *redfishtest.Quirks) {
				for _, id := range s.Systems() {
					all := "/redfish/v1/Managers/" + id + "/VirtualMedia"
					q.Missing = append(q.Missing, all, all+"/Cd1")
				}
			})
		}, providers.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, redfishtest.Config{Slots: slots}, redfishOnly)
			l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, iso))
			c.goes(l.s)
			got, err := l.p.Media(l.ctx, l.m)
			if c.class != "" {
				l.class("read media", err, c.class)
				l.s.Set(func(q *redfishtest.Quirks) { q.Missing = nil })
				got, err = l.p.Media(l.ctx, l.m)
			}
			if err != nil || got != iso {
				t.Fatalf("got media %q (%v), want %q", got, err, iso)
			}
			l.ok("eject", l.p.EjectMedia(l.ctx, op("media"), l.m))
		})
	}
}

// TestMediaInAnotherSpelling checks that a BMC that reports the URL in another spelling still has
// the image.
func TestMediaInAnotherSpelling(t *testing.T) {
	l := newLab(t, redfishtest.Config{}, redfishOnly)
	l.s.Set(func(q *redfishtest.Quirks) { q.MediaSpelling = true })
	const image = "http://images.example/boot.iso"
	for range 2 { // the second time it is already inserted
		l.ok("insert", l.p.InsertMedia(l.ctx, op("media"), l.m, image))
	}
	if got := l.effects("media_insert"); len(got) != 1 {
		t.Errorf("got inserts %v, want one", got)
	}
	l.class("another image", l.p.InsertMedia(l.ctx, op("media"), l.m, "http://images.example/BOOT.iso"),
		providers.Transient)
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"https://a/x", "HTTPS://A:443/x ", true}, {"https://a/x", "https://a:444/x", false}, {"https://a/x%20y",
			"https://a/x y", true}, {"https://a/x?t=1", "https://a/x?t=2", false},
		{"nfs://a/x", "NFS://a/x", true}, {"https://a/x", "http://a/x", false}, {"", "", true}, {"https://a/x", "",
			false}, {"https://a/x", "%zz", false},
	} {
		if got := providers.SameMedium(tt.a, tt.b); got != tt.want {
			t.Errorf("SameMedium(%q, %q): got %t", tt.a, tt.b, got)
		}
	}
}
