package netbootapi

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// waitSeconds is how long a machine waits before it retries.
const waitSeconds = 3

// script writes scripts for iPXE. Text from other sources is passed through quiet,
// because iPXE expands ${…} and interprets words such as ||. The command lines of images have no
// such words.
type script struct {
	base   string   // URL of this peer
	others []string // URLs of the other peers, which the machine tries if this one is down
	mac    string
}

func write(w http.ResponseWriter, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("#!ipxe\n" + strings.Join(lines, "\n") + "\n")) // the client has disconnected
}

// quiet returns a text that is safe as an argument of echo. Characters that iPXE may
// interpret are replaced by question marks.
func quiet(s string) string {
	return strings.Map(func(r rune) rune {
		safe := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if safe || r == ' ' || strings.ContainsRune(".,:_/()=@+-", r) {
			return r
		}
		return '?'
	}, s)
}

// disk writes a script that boots the disk.
func (s *script) disk(w http.ResponseWriter, machine, reason string) {
	write(w, "echo Holdfast: "+quiet(cmp.Or(machine, s.mac))+" boots its disk: "+quiet(reason), "exit")
}

// again writes a script that waits and retries.
func (s *script) again(w http.ResponseWriter, machine, reason string) {
	begin := "echo Holdfast: " + quiet(cmp.Or(machine, s.mac)) + " waits: " + quiet(reason)
	write(w, append([]string{begin, ":again"}, s.retry()...)...)
}

func (s *script) retry() []string {
	lines := []string{fmt.Sprintf("sleep %d", waitSeconds)}
	bases := append([]string{s.base}, s.others...)
	for i, base := range bases {
		otherwise := " ||" // ignore a failure and go to the next line
		if i == len(bases)-1 {
			otherwise = " || goto again"
		}
		path := "/api/v1/boot?mac=" + url.QueryEscape(s.mac) + "&arch=${buildarch}"
		lines = append(lines, "chain --replace "+base+path+otherwise)
	}
	return lines
}

// chain writes a script that chains to the boot script for the network card that iPXE booted from.
func (s *script) chain(w http.ResponseWriter) {
	write(w,
		":again",
		"isset ${ip} || dhcp || goto wait",
		"chain --replace "+s.base+"/api/v1/boot?mac=${mac}&arch=${buildarch} || goto wait",
		":wait",
		fmt.Sprintf("sleep %d", waitSeconds),
		"goto again",
	)
}

// image writes a script that boots a kernel and an initrd. UEFI kernels need initrd= on the
// command line.
func (s *script) image(w http.ResponseWriter, a *holdfastv1.BootMachineResponse) {
	cmdline := []string{"initrd=initrd", "holdfast.url=" + s.base}
	if a.GetToken() != "" {
		cmdline = append(cmdline, "holdfast.token="+a.GetToken())
	}
	bootIf := "BOOTIF=01-" + quiet(strings.ReplaceAll(s.mac, ":", "-"))
	cmdline = append(cmdline, "ip=dhcp", bootIf, "console=tty0", "console=ttyS0")
	cmdline = append(cmdline, strings.Fields(a.GetCmdline())...) // an image has no word that iPXE interprets
	files := s.base + "/images/" + url.PathEscape(a.GetImage())
	lines := []string{
		"echo Holdfast: " + quiet(a.GetMachineId()) + " boots " + quiet(a.GetImage()) + ": " + quiet(a.GetReason()),
		"imgfree",
		"kernel " + files + "/kernel " + strings.Join(cmdline, " ") + " || goto again",
		"initrd --name initrd " + files + "/initrd || goto again",
		"boot || goto again",
		":again",
		"imgfree",
	}
	write(w, append(lines, s.retry()...)...)
}
