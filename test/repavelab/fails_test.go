//go:build linux

package repavelab

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/bmclab"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
)

// impatient has short deadlines. Installing in TCG needs a fifth of them.
const impatient = `    netboot: {boot_seconds: 40, start_seconds: 60, silence_seconds: 40, disk_seconds: 600}
`

// failure is a failure of an attempt of the installation.
type failure struct {
	name  string
	when  func(*holdfastv1.Install) bool // state of the session at the failure; nil: before the attempt
	power bool                           // of the power, otherwise of the network
	want  []string                       // texts in the error
}

// TestRepaveFails lets each attempt of one installation fail differently. Each must end in time
// with a reason, and the next one must boot the machine from the state that is left. The last one
// succeeds.
func TestRepaveFails(t *testing.T) {
	if why != "" {
		t.Skip("NOT TESTED: " + why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	network(t, 1) // first, because it sets the loopback interface up
	bench, err := bmclab.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bench.Close() }()
	l := bench.Lab(t)
	addresses(l, t, 1)
	s := openSite(t, bench, l, impatient)
	boxes := s.boxes(l, 1, false)
	b := boxes[0]
	s.prepare(boxes, installs(5))

	half := func(i *holdfastv1.Install) bool {
		return i.GetStage() == holdfastv1.Install_WRITING && i.GetProgress() >= 50
	}
	failures := []failure{
		{"no answer to DHCP", nil, false, []string{"the machine has not booted from the network in 40s",
			"whether the DHCP server answers it", boxMAC(0)}},
		{"installer that does not start",
			func(i *holdfastv1.Install) bool { return i.GetStage() == holdfastv1.Install_BOOTED_IPXE }, false,
			[]string{"the installer has not reported in 1m0s after the machine got its boot script",
				"whether it reaches the peers over HTTP"}},
		{"network lost at half of the image", half, false, []string{"no report of the installer for 40s", boxHost(0),
			"% done, at writing", "its network"}},
		{"power lost at half of the image", half, true, []string{"no report of the installer for 40s",
			"% done, at writing", "its power"}},
	}
	s.link(false)
	b.run = s.cli("run", "start", b.id, "--yes", "--type", "REPAVE", "--plan", "lab-repave", "--param", "authorized_keys="+
		s.files["authorized"], "-o", "name")
	b.run = b.run[strings.LastIndex(b.run, "/")+1:]
	for n, f := range failures {
		attempt := int32(n + 1)
		since := time.Now()
		if f.when != nil {
			s.until(ctx, f.name, boxes, func(i *holdfastv1.Install) bool { return i.GetAttempt() == attempt && f.when(i) })
			since = time.Now()
			if f.power {
				if err := b.Press("the lab", chassis.Off); err != nil {
					t.Fatal(err)
				}
				s.bootsNothing(b)
			} else {
				s.link(false)
			}
		}
		reason := s.reason(ctx, b, n)
		t.Logf("%6.1f s: %s: attempt %d ended after %.1f s: %s", time.Since(began).Seconds(), f.name, attempt,
			time.Since(since).Seconds(), reason)
		for _, w := range f.want {
			if !strings.Contains(reason, w) {
				t.Errorf("%s: want %q in the reason, got %s", f.name, w, reason)
			}
		}
		s.link(true)
	}
	s.succeeded(ctx, b)
	t.Logf("%6.1f s: attempt %d succeeded", time.Since(began).Seconds(), len(failures)+1)
	if i := s.install(b); i.GetStage() != holdfastv1.Install_BOOTED_DISK || i.GetAttempt() != int32(len(failures)+1) {
		t.Errorf("session: got %v, want that of the last attempt, at booted-disk", i)
	}
	// The box was off. Each retry turns it off and on, except the one that finds it without power.
	if got, want := pressed(b), []string{"on", "off", "on", "off", "on", "off", "on", "on"}; !slices.Equal(got, want) {
		t.Errorf("power changes: got %v, want %v\n%+v", got, want, b.Done())
	}
}

// link disconnects or connects the network of the first box.
func (s *site) link(up bool) {
	s.t.Helper()
	word := "down"
	if up {
		word = "up"
	}
	if err := do(s.t.Context(), "ip", "link", "set", tapName(0), word); err != nil {
		s.t.Fatal(err)
	}
}

// reason blocks until an attempt of the installation has failed, and returns its error.
func (s *site) reason(ctx context.Context, b *box, n int) string {
	s.t.Helper()
	for {
		r, err := s.client.Runs().GetRun(ctx, &holdfastv1.GetRunRequest{RunId: b.run})
		for _, st := range r.GetSteps() {
			if a := st.GetAttempts(); err == nil && st.GetName() == "repave-image" && len(a) > n && a[n].GetError() != "" {
				return a[n].GetError()
			}
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("wait for the end of attempt %d: %v\n%v\n%s\n%s", n+1, err, s.install(b), s.log(b.run), s.console(b))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// bootsNothing checks that the disk of a box that lost its power cannot boot.
func (s *site) bootsNothing(b *box) {
	s.t.Helper()
	f, err := os.Open(b.disk)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	start := make([]byte, 1<<20)
	if _, err := io.ReadFull(f, start); err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Equal(start, make([]byte, len(start))) {
		s.t.Errorf("disk of %s: got a bootable half of an image", b.id)
	}
}

// pressed returns the presses of a box's BMC, in order.
func pressed(b *box) []string {
	return presses(slices.DeleteFunc(slices.Clone(b.Done()), func(e chassis.Effect) bool { return e.By == "the lab" }))
}
