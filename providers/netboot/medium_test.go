package netboot

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/providers"
)

// bay is a machine with a virtual drive.
type bay struct {
	site
	media   string
	boot    providers.BootDevice
	forgets bool // loses the boot device at power-off
	noMedia string
}

func (b *bay) Media(context.Context, providers.Machine) (string, error) { return b.media, nil }

func (b *bay) InsertMedia(_ context.Context, _ providers.Op, _ providers.Machine, u string) error {
	if b.noMedia != "" {
		return providers.Errorf(providers.Failed, "insert", "%s", strings.ReplaceAll(b.noMedia, "URL", u))
	}
	b.done, b.media = append(b.done, "insert"), u
	return nil
}

func (b *bay) EjectMedia(context.Context, providers.Op, providers.Machine) error {
	b.done, b.media = append(b.done, "eject"), ""
	return nil
}

func (b *bay) BootDevice(context.Context, providers.Machine) (providers.BootDevice, error) {
	return b.boot, nil
}

func (b *bay) SetBootDevice(_ context.Context, _ providers.Op, _ providers.Machine, d providers.BootDevice) error {
	b.done, b.boot = append(b.done, "boot "+d.Mode), d
	return nil
}

func (b *bay) SetPower(ctx context.Context, op providers.Op, m providers.Machine, a providers.PowerAction) error {
	if a == providers.ActionHardOff && b.forgets {
		b.boot = providers.BootDevice{}
	}
	return b.site.SetPower(ctx, op, m, a)
}

func (b *bay) Note(ctx context.Context, i *holdfastv1.Install, seen Seen) error {
	if len(seen.MediumSHA256) > 0 {
		i.MediumSha256, i.MediumServer = seen.MediumSHA256, seen.MediumServer
		return nil
	}
	return b.site.Note(ctx, i, seen)
}

func (b *bay) imager(t *testing.T, later time.Duration) *MediumImager {
	t.Helper()
	p, err := NewMedium(MediumConfig{Servers: []string{"http://10.0.0.1:7404", "http://10.0.0.2:7404"}}, b, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.now = func() time.Time { return start.Add(later) }
	return p
}

// do makes the due actions until none is left, with another leader for each if leaders is set.
func (b *bay) do(t *testing.T, attempt int32, leaders bool) providers.InstallStatus {
	t.Helper()
	p := b.imager(t, time.Second)
	quiet := 0
	for range 20 {
		if leaders {
			p = b.imager(t, time.Second)
		}
		st, err := p.InstallStatus(t.Context(), machine(), op(attempt).Token())
		if err != nil {
			t.Fatal(err)
		}
		if st.State != providers.WorkNone && st.Due == "" {
			if quiet++; quiet > 2 {
				return st
			}
			continue // it may have recorded an observation
		}
		quiet = 0
		if leaders {
			p = b.imager(t, time.Second)
		}
		if err := p.StartInstall(t.Context(), op(attempt), machine(), providers.InstallSpec{Image: "debian"}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("got due actions without end")
	return providers.InstallStatus{}
}

// The machine boots the medium once, in each state and under several leaders, and the medium is
// ejected before the install is done.
func TestMedium(t *testing.T) {
	cd, off, on := "boot VIRTUAL_MEDIA", string(providers.ActionHardOff), string(providers.ActionOn)
	for name, tt := range map[string]struct {
		bay  bay
		want []string
	}{
		"on":  {bay{site: site{power: providers.PowerOn}}, []string{"open", "insert", cd, off, on}},
		"off": {bay{site: site{power: providers.PowerOff}}, []string{"open", "insert", cd, on}},
		"another disc inserted": {bay{site: site{power: providers.PowerOff}, media: "http://192.0.2.1/rescue.iso"},
			[]string{"open", "eject", "insert", cd, on}},
		"lost boot device": {bay{site: site{power: providers.PowerOn}, forgets: true},
			[]string{"open", "insert", cd, off, cd, on}},
		"a medium of another time": {bay{site: site{power: providers.PowerOff},
			media: providers.MediumURL("http://x", [32]byte{1})}, []string{"open", "eject", "insert", cd, on}},
	} {
		for _, leaders := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", leaders die=", leaders), func(t *testing.T) {
				b := tt.bay
				b.do(t, 1, leaders)
				if diff := cmp.Diff(tt.want, b.done); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				secret, ok := providers.MediumSecret(b.media)
				if _, sum := providers.MediumToken(secret); !ok || !bytes.Equal(sum, b.session.GetMediumSha256()) ||
					!strings.HasPrefix(b.media, "http://10.0.0.1:7404/") {
					t.Errorf("got a medium of another session: %s", b.media)
				}
				b.session.Stage = holdfastv1.Install_COMPLETE
				if st, err := b.imager(t, time.Second).InstallStatus(t.Context(), machine(), op(1).Token()); err != nil ||
					st.State != providers.WorkRunning || st.Due != dueOut {
					t.Errorf("complete with an inserted medium: got %+v, %v, want it ejected first", st, err)
				}
				if st := b.do(t, 1, leaders); st.State != providers.WorkDone || b.media != "" || b.done[len(b.done)-1] != "eject" {
					t.Errorf("got %+v with medium %q, want done without a medium", st, b.media)
				}
			})
		}
	}
}

// The end of an attempt ejects its medium, and no other one. The next attempt has another medium,
// of another peer.
func TestMediumEnds(t *testing.T) {
	b := &bay{site: site{power: providers.PowerOff}}
	b.do(t, 1, false)
	first := b.media
	if st, err := b.imager(t, time.Hour).InstallStatus(t.Context(), machine(), op(1).Token()); err != nil ||
		st.State != providers.WorkFailed || !strings.Contains(st.Error, "http://10.0.0.1:7404") {
		t.Errorf("installer that does not start: got %+v, %v", st, err)
	}
	for range 2 {
		if err := b.imager(t, 0).EndInstall(t.Context(), op(1), machine()); err != nil || b.media != "" {
			t.Errorf("after the end: got %v, medium %q", err, b.media)
		}
	}
	b.do(t, 2, false)
	if b.media == first || !strings.HasPrefix(b.media, "http://10.0.0.2:7404/") {
		t.Errorf("second attempt: got %s, the same as the first: %s", b.media, first)
	}
	b.media = "http://192.0.2.1/rescue.iso"
	if err := b.imager(t, 0).EndInstall(t.Context(), op(2), machine()); err != nil || b.media == "" {
		t.Errorf("medium of another user: got %v, %q", err, b.media)
	}
}

// Errors of a BMC are reported without the secret in the URL.
func TestMediumSecretIsHidden(t *testing.T) {
	b := &bay{site: site{power: providers.PowerOff}, noMedia: "cannot mount URL: no route"}
	p := b.imager(t, 0)
	if err := p.StartInstall(t.Context(), op(1), machine(), providers.InstallSpec{Image: "debian"}); err != nil {
		t.Fatal(err)
	}
	err := p.StartInstall(t.Context(), op(1), machine(), providers.InstallSpec{Image: "debian"})
	if err == nil || providers.ClassOf(err) != providers.Failed ||
		!strings.Contains(err.Error(), "/…/installer.iso: no route") {
		t.Errorf("got %v", err)
	}
	for _, secret := range p.made {
		if strings.Contains(err.Error(), providers.MediumURL("", secret)) {
			t.Errorf("got the secret in the error: %v", err)
		}
	}
	if len(p.made) != 1 {
		t.Errorf("got %d media, want 1", len(p.made))
	}
}
