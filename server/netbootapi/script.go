package netbootapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// waitSeconds is how long a machine that has to wait does so before it asks again.
const waitSeconds = 3

// script writes what iPXE runs. Everything in it that came from somebody else goes through word or
// quiet: iPXE expands ${…}, and takes || and && for its own wherever they stand.
type script struct {
	base   string   // URL of this peer
	others []string // of the other ones, whom the machine asks when this one is away
	mac    string
}

func write(w http.ResponseWriter, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("#!ipxe\n" + strings.Join(lines, "\n") + "\n")) // the client is gone: nobody to tell
}

// quiet returns a text that can stand behind echo: what iPXE would read otherwise is a question
// mark.
func quiet(s string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(".,:_/()=@+-", r) {
			return r
		}
		return '?'
	}, s)
}

// words returns the words of a kernel command line that can stand in a script; the others are left
// out.
func words(s string) string {
	var ok []string
	for _, word := range strings.Fields(s) {
		if word == quiet(word) {
			ok = append(ok, word)
		}
	}
	return strings.Join(ok, " ")
}

// disk boots what is on the disk.
func (s *script) disk(w http.ResponseWriter, machine, why string) {
	write(w, "echo Holdfast: "+quiet(firstOf(machine, s.mac))+" boots its disk: "+quiet(why), "exit")
}

// again waits, and asks once more.
func (s *script) again(w http.ResponseWriter, machine, why string) {
	write(w, append([]string{"echo Holdfast: " + quiet(firstOf(machine, s.mac)) + " waits: " + quiet(why), ":again"}, s.retry()...)...)
}

func (s *script) retry() []string {
	lines := []string{fmt.Sprintf("sleep %d", waitSeconds)}
	bases := append([]string{s.base}, s.others...)
	for i, base := range bases {
		otherwise := " ||" // what fails is passed over
		if i == len(bases)-1 {
			otherwise = " || goto again"
		}
		lines = append(lines, "chain --replace "+base+"/api/v1/boot?mac="+url.QueryEscape(s.mac)+"&arch=${buildarch}"+otherwise)
	}
	return lines
}

// ask asks for the boot script with the address of the card that iPXE has come by.
func (s *script) ask(w http.ResponseWriter) {
	write(w, ":again", "isset ${ip} || dhcp || goto wait", "chain --replace "+s.base+"/api/v1/boot?mac=${mac}&arch=${buildarch} || goto wait", ":wait", fmt.Sprintf("sleep %d", waitSeconds), "goto again")
}

// image boots a kernel and an initrd. initrd= is for UEFI, where the kernel has to be told.
func (s *script) image(w http.ResponseWriter, a *holdfastv1.BootMachineResponse) {
	cmdline := []string{"initrd=initrd", "holdfast.url=" + s.base}
	if a.GetToken() != "" {
		cmdline = append(cmdline, "holdfast.token="+a.GetToken())
	}
	cmdline = append(cmdline, "ip=dhcp", "BOOTIF=01-"+quiet(strings.ReplaceAll(s.mac, ":", "-")), "console=tty0", "console=ttyS0")
	if more := words(a.GetCmdline()); more != "" {
		cmdline = append(cmdline, more)
	}
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

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
