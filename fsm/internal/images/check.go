package images

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of an image.
const (
	maxName    = 64
	maxText    = 1024
	maxCmdline = 2048 // the limit of kernels on all architectures
	maxURL     = 2048
	// MaxFile is the maximum size of a file of an image: 1 TiB.
	MaxFile = 1 << 40
)

// Arches returns the architectures of images.
func Arches() []string { return []string{"amd64", "arm64"} }

// Validate returns the violations of an image that has its defaults (NormalImage).
func Validate(i *holdfastv1.Image) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: "image."}
	if name := i.GetName(); !lex.ValidName(name, maxName) || strings.Contains(name, ":") ||
		strings.Trim(name, ".") == "" || name == "sha256" {
		// The name is part of paths.
		bad.Add("name", "is not 1 to %d letters, digits, '.', '_' or '-', or it is sha256", maxName)
	}
	if n := len(i.GetDescription()); n > maxText {
		bad.Add("description", "has %d bytes, at most %d are allowed", n, maxText)
	}
	if !slices.Contains(Arches(), i.GetArch()) {
		bad.Add("arch", "is not one of %s", strings.Join(Arches(), ", "))
	}
	if i.GetDisk() == nil && (i.GetKernel() == nil || i.GetInitrd() == nil) {
		bad.Add("disk", "is missing: an image has a disk, or a kernel and an initrd, or all three")
	}
	if i.GetDisk() == nil && (i.GetFormat() != 0 || i.GetCompression() != 0) {
		bad.Add("format", "is that of a disk, and there is none")
	}
	if i.GetInitrd() != nil && i.GetKernel() == nil {
		bad.Add("kernel", "is missing: an initrd needs one")
	}
	if s := i.GetCmdline(); len(s) > maxCmdline || !lex.SingleLine(s) {
		bad.Add("cmdline", "is not one line of at most %d bytes", maxCmdline)
	}
	if word := interpretedWord(i.GetCmdline()); word != "" {
		bad.Add("cmdline", "has the word %q, which iPXE interprets: leave out ${…}, ||, &&, ; and words that begin with #",
			word)
	}
	if i.GetCmdline() != "" && i.GetKernel() == nil {
		bad.Add("cmdline", "is that of a kernel, and there is none")
	}
	for part, f := range Files(i) {
		bad.Fields = append(bad.Fields, checkFile("image."+part+".", f)...)
	}
	return bad.Fields
}

// interpretedWord returns the first word of a kernel command line that iPXE would interpret instead
// of passing it to the kernel, "" if there is none (https://ipxe.org/scripting). A script expands
// ${…} anywhere, but || and the others only as words of their own.
func interpretedWord(cmdline string) string {
	for word := range strings.FieldsSeq(cmdline) {
		if word == "||" || word == "&&" || word == ";" || word[0] == '#' || strings.Contains(word, "${") ||
			strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return word
		}
	}
	return ""
}

func checkFile(prefix string, f *holdfastv1.Image_File) []refusal.FieldViolation {
	bad := refusal.Violations{Prefix: prefix}
	if !ValidSum(f.GetSha256()) {
		bad.Add("sha256", "is not a SHA-256: 64 hexadecimal digits in lower case (sha256sum FILE)")
	}
	switch n := f.GetSizeBytes(); {
	case n < 0 || n > MaxFile:
		bad.Add("size_bytes", "is %d, at most %d are allowed", n, int64(MaxFile))
	case n == 0 && f.GetUrl() == "":
		bad.Add("size_bytes", "is 0: a file that was uploaded has some bytes")
	}
	if f.GetUrl() != "" {
		if err := checkURL(f.GetUrl()); err != "" {
			bad.Add("url", "%s", err)
		}
	}
	return bad.Fields
}

// checkURL returns the violation of an image file's URL. It does not quote the URL,
// which may contain a password.
func checkURL(s string) string {
	if len(s) > maxURL || !lex.SingleLine(s) {
		return fmt.Sprintf("is not one line of at most %d bytes", maxURL)
	}
	switch u, ok := lex.ParseURL(s); {
	case !ok || !u.IsWeb():
		return "is not an http or https URL (a blank in it is written as %20)"
	case u.User:
		return "contains a user or a password, which every caller that may list images would see"
	case u.Fragment:
		return "has a fragment (#…), which servers never see"
	}
	return ""
}

// ValidSum reports whether a text is a SHA-256 as images have it: 64 hexadecimal digits in
// lower case.
func ValidSum(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
