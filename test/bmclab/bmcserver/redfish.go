package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/providers/bmc/redfishtest"
	"github.com/holdfast-metal/holdfast/test/bmclab/chassis"
	"github.com/holdfast-metal/holdfast/test/bmclab/control"
)

// redfish runs a BMC with Redfish, and a control interface on a unix socket, where a test sets its
// quirks and reads what it has received.
func redfish(args []string) error {
	var all systems
	f := flag.NewFlagSet("redfish", flag.ContinueOnError)
	addr := f.String("addr", "", "host:port of the Redfish service")
	at := f.String("control", "", "unix socket of the control interface")
	gone := f.Duration("reset-time", 2*time.Second, "how long the BMC is gone when it is reset")
	power := f.Duration("power-time", 0, "from a press until it shows, of systems in memory")
	boot := f.Duration("boot-time", 0, "from power on until the operating system runs, of systems in memory")
	f.Var(&all, "system", "ID=SOCKET of a chassis; ID for a system in memory")
	if err := f.Parse(args); err != nil {
		return err
	}
	cfg := redfishtest.Config{
		Systems:   all.ids,
		ResetTime: *gone,
		PowerTime: *power,
		BootTime:  *boot,
		Chassis:   map[string]redfishtest.Chassis{},
	}
	for id, socket := range all.sockets {
		cfg.Chassis[id] = box{chassis.Dial(socket, "redfish")}
	}
	s := redfishtest.New(cfg)
	defer s.Close()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("serve Redfish: %w", err)
	}
	d, err := net.Listen("unix", *at)
	if err != nil {
		return fmt.Errorf("open the control interface: %w", err)
	}
	failed := make(chan error, 2)
	for l, h := range map[net.Listener]http.Handler{l: s.Handler(), d: control.Handler(s)} {
		srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { failed <- srv.Serve(l) }()
	}
	return <-failed
}

// box adapts a chassis to Redfish.
type box struct{ c *chassis.Client }

func targets() map[string]string {
	return map[string]string{"None": "none", "Pxe": "net", "Hdd": "disk", "Cd": "cd"}
}

func targetOf(ours string) string {
	for redfish, t := range targets() {
		if t == ours {
			return redfish
		}
	}
	return "None"
}

// State returns the state of the machine.
func (b box) State() (redfishtest.State, error) {
	is, err := b.c.State()
	if err != nil {
		return redfishtest.State{}, err
	}
	o := redfishtest.Override{Target: targetOf(is.Boot.Target), Enabled: "Once", Mode: "Legacy"}
	switch {
	case is.Boot.Target == "none":
		o.Enabled = "Disabled"
	case is.Boot.Persistent:
		o.Enabled = "Continuous"
	}
	if is.Boot.UEFI {
		o.Mode = "UEFI"
	}
	return redfishtest.State{On: is.On, Up: is.Up, Since: is.Since, Booted: targetOf(is.From), Boot: o,
		Image: is.Media}, nil
}

// Reset presses the button for a ResetType.
func (b box) Reset(kind string) error {
	press := map[string]chassis.Press{"On": chassis.On, "ForceOn": chassis.On, "ForceOff": chassis.Off,
		"GracefulShutdown": chassis.Soft, "ForceRestart": chassis.Reset}[kind]
	if press == "" {
		return fmt.Errorf("reset %s: unknown button", kind)
	}
	return b.c.Press(press)
}

// SetBoot sets the boot override.
func (b box) SetBoot(o redfishtest.Override) error {
	target, known := targets()[o.Target]
	if !known {
		return fmt.Errorf("boot from %s: unknown device", o.Target)
	}
	if o.Enabled == "Disabled" {
		target = "none"
	}
	return b.c.SetBoot(chassis.Boot{Target: target, Persistent: o.Enabled == "Continuous", UEFI: o.Mode == "UEFI"})
}

// SetMedia inserts or ejects an image.
func (b box) SetMedia(image string) error { return b.c.SetMedia(image) }
