package providertest

import (
	"io"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
)

func bootTests() map[string]func(*harness) {
	set := func(persistent bool) func(*harness) {
		return func(h *harness) {
			b := need[providers.BootController](h)
			for _, mode := range []string{"PXE", "DISK"} {
				want := providers.BootDevice{Mode: mode, Persistent: persistent, UEFI: true}
				op := h.op("netboot-" + mode)
				h.ok("set boot device", b.SetBootDevice(h.ctx, op, h.Machine, want))
				h.eventually("boot device "+mode, func() (bool, error) {
					got, err := b.BootDevice(h.ctx, h.Machine)
					return got.Mode == mode && got.Persistent == persistent, err
				})
				h.counted(op, "boot_device", 1)
			}
		}
	}
	return map[string]func(*harness){
		"Once":       set(false),
		"Persistent": set(true),
		"UnknownModeIsRefused": func(h *harness) {
			b := need[providers.BootController](h)
			before, err := b.BootDevice(h.ctx, h.Machine)
			h.ok("read boot device", err)
			floppy := providers.BootDevice{Mode: "FLOPPY"}
			h.classed("set boot device FLOPPY", b.SetBootDevice(h.ctx, h.op("netboot"), h.Machine, floppy))
			after, err := b.BootDevice(h.ctx, h.Machine)
			h.ok("read boot device", err)
			if before != after {
				h.Fatalf("boot device is %+v after a refusal, want %+v", after, before)
			}
		},
	}
}

func mediaTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"InsertAndEject": func(h *harness) {
			p := need[providers.MediaController](h)
			if h.MediaURL == "" {
				h.Skip("setup has no MediaURL")
			}
			media := func(want string) {
				h.eventually("media "+want, func() (bool, error) {
					got, err := p.Media(h.ctx, h.Machine)
					return providers.SameMedium(got, want), err
				})
			}
			op := h.op("media")
			h.ok("insert media", p.InsertMedia(h.ctx, op, h.Machine, h.MediaURL))
			media(h.MediaURL)
			h.ok("eject media", p.EjectMedia(h.ctx, op, h.Machine))
			media("")
			h.counted(op, "media_insert", 1)
			h.counted(op, "media_eject", 1)
		},
	}
}

func consoleTests() map[string]func(*harness) {
	return map[string]func(*harness){
		"AnswersWhatIsTyped": func(h *harness) {
			p := need[providers.Console](h)
			c, err := p.OpenConsole(h.ctx, h.Machine)
			h.ok("open console", err)
			_, err = c.Write([]byte("\n"))
			h.ok("type a line", err)
			if n := h.within("read", func() (int, error) { return c.Read(make([]byte, 1)) }); n != 1 {
				h.Fatalf("read %d bytes, want 1", n)
			}
			h.ok("close console", c.Close())
		},
		"CloseEndsARead": func(h *harness) {
			p := need[providers.Console](h)
			c, err := p.OpenConsole(h.ctx, h.Machine)
			h.ok("open console", err)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, c) // it may end with any error, as long as it ends
			}()
			h.ok("close console", c.Close())
			h.within("end of the read", func() (int, error) {
				<-ended
				return 0, nil
			})
		},
	}
}

// within fails the test if f does not return in time.
func (h *harness) within(name string, f func() (int, error)) int {
	h.Helper()
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := f()
		done <- result{n, err}
	}()
	t := time.NewTimer(h.Wait)
	defer t.Stop()
	select {
	case r := <-done:
		h.ok(name, r.err)
		return r.n
	case <-t.C:
		h.Fatalf("%s: not within %v", name, h.Wait)
		return 0
	}
}
