package pxe

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pin/tftp/v3"

	"github.com/holdfast-metal/holdfast/server/netbootapi"
)

// scriptName is the file that newer iPXE versions request from their boot server if DHCP
// named none.
const scriptName = "autoexec.ipxe"

// serveFiles serves the programs over TFTP until ctx ends. It is read-only.
func (s *Server) serveFiles(ctx context.Context, conn *net.UDPConn) error {
	busy := make(chan struct{}, maxTransfers)
	t := tftp.NewServer(func(name string, to io.ReaderFrom) error {
		select {
		case busy <- struct{}{}:
			defer func() { <-busy }()
		default:
			return fmt.Errorf("this peer already serves %d transfers, the limit: retry", maxTransfers)
		}
		return s.send(name, to)
	}, nil)
	t.SetTimeout(3 * time.Second)
	t.SetRetries(5)
	stop := context.AfterFunc(ctx, t.Shutdown)
	defer stop()
	err := t.Serve(conn)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was stopped
	}
	return fmt.Errorf("serve files over TFTP on %s: %w", conn.LocalAddr(), err)
}

// nameOf returns the base name of a requested file if it may be served, and "" otherwise.
// The directory is ignored.
func nameOf(asked string) string {
	name := path.Base(path.Clean("/" + strings.ReplaceAll(asked, `\`, "/")))
	if name == scriptName || slices.Contains(netbootapi.Programs(), name) {
		return name
	}
	return ""
}

// send serves a file.
func (s *Server) send(asked string, to io.ReaderFrom) error {
	name := nameOf(asked)
	if name == "" {
		requested := strconv.Quote(asked[:min(len(asked), 80)])
		return fmt.Errorf("there is no %s: this peer has %v", requested, netbootapi.Programs())
	}
	if name == scriptName {
		return sized(to, strings.NewReader(s.script()))
	}
	f, err := os.Open(filepath.Join(s.cfg.Dir, name))
	if err != nil {
		return fmt.Errorf("there is no %s on this peer", name) // the path is not disclosed
	}
	defer func() { _ = f.Close() }()
	return sized(to, f)
}

// sized sends a file with its length, for firmware that requests it (RFC 2349).
func sized(to io.ReaderFrom, from io.ReadSeeker) error {
	n, err := from.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = from.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if t, ok := to.(tftp.OutgoingTransfer); ok {
		t.SetSize(n)
	}
	_, err = to.ReadFrom(from)
	return err
}

// script returns a script that requests the boot script of the machine from this peer.
func (s *Server) script() string {
	return "#!ipxe\n:again\nisset ${ip} || dhcp || goto wait\n" +
		"chain --replace " + s.url("/api/v1/boot?mac=${mac}&arch=${buildarch}") + " || goto wait\n" +
		":wait\nsleep 3\ngoto again\n"
}
