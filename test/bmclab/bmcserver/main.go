// Command bmcserver connects a BMC to the chassis of a lab machine:
//
//	bmcserver control SOCKET 0x20 get|set NAME [VALUE]...   the chassis_control program of ipmi_sim
//	bmcserver redfish -addr HOST:PORT -control SOCKET [-system ID=SOCKET]...   a BMC that speaks Redfish
//
// It manages no machine: see package chassis.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) > 4 && args[0] == "control":
		err = ipmi(args[1], args[3], args[4:])
	case len(args) > 0 && args[0] == "redfish":
		err = redfish(args[1:])
	default:
		err = errors.New("want: control SOCKET 0x20 get|set NAME [VALUE]..., or redfish")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bmcserver:", err)
		os.Exit(1)
	}
}

// systems is a repeatable flag ID=SOCKET. Without a socket, the system exists in memory
// only.
type systems struct {
	ids     []string
	sockets map[string]string
}

func (s *systems) String() string { return strings.Join(s.ids, ",") }

// Set adds one.
func (s *systems) Set(v string) error {
	id, socket, _ := strings.Cut(v, "=")
	s.ids = append(s.ids, id)
	if s.sockets == nil {
		s.sockets = map[string]string{}
	}
	if socket != "" {
		s.sockets[id] = socket
	}
	return nil
}

var _ flag.Value = (*systems)(nil)
