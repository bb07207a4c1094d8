package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of an image.
const (
	maxImageName    = 64
	maxImageText    = 1024
	maxImageCmdline = 2048 // the limit of kernels on all architectures
	maxImageURL     = 2048
	// MaxImageFile is the maximum size of a file of an image: 1 TiB.
	MaxImageFile = 1 << 40
)

// ImageArches returns the architectures of images.
func ImageArches() []string { return []string{"amd64", "arm64"} }

// ValidateImage returns the violations of an image that has its defaults (NormalImage).
func ValidateImage(i *holdfastv1.Image) []FieldViolation {
	var bad []FieldViolation
	add := func(field, format string, args ...any) {
		bad = append(bad, FieldViolation{Field: "image." + field, Description: fmt.Sprintf(format, args...)})
	}
	if name := i.GetName(); !lex.ValidName(name, maxImageName) || strings.Contains(name, ":") ||
		strings.Trim(name, ".") == "" || name == "sha256" {
		// The name is part of paths.
		add("name", "is not 1 to %d letters, digits, '.', '_' or '-', or it is sha256", maxImageName)
	}
	if n := len(i.GetDescription()); n > maxImageText {
		add("description", "has %d bytes, at most %d are allowed", n, maxImageText)
	}
	if !slices.Contains(ImageArches(), i.GetArch()) {
		add("arch", "is not one of %s", strings.Join(ImageArches(), ", "))
	}
	if i.GetDisk() == nil && (i.GetKernel() == nil || i.GetInitrd() == nil) {
		add("disk", "is missing: an image has a disk, or a kernel and an initrd, or all three")
	}
	if i.GetDisk() == nil && (i.GetFormat() != 0 || i.GetCompression() != 0) {
		add("format", "is that of a disk, and there is none")
	}
	if i.GetInitrd() != nil && i.GetKernel() == nil {
		add("kernel", "is missing: an initrd needs one")
	}
	if s := i.GetCmdline(); len(s) > maxImageCmdline || !lex.SingleLine(s) {
		add("cmdline", "is not one line of at most %d bytes", maxImageCmdline)
	}
	if i.GetCmdline() != "" && i.GetKernel() == nil {
		add("cmdline", "is that of a kernel, and there is none")
	}
	for part, f := range ImageFiles(i) {
		bad = append(bad, checkImageFile("image."+part, f)...)
	}
	return bad
}

func checkImageFile(field string, f *holdfastv1.Image_File) []FieldViolation {
	var bad []FieldViolation
	add := func(name, format string, args ...any) {
		bad = append(bad, FieldViolation{Field: field + "." + name, Description: fmt.Sprintf(format, args...)})
	}
	if !ValidSum(f.GetSha256()) {
		add("sha256", "is not a SHA-256: 64 hexadecimal digits in lower case (sha256sum FILE)")
	}
	switch n := f.GetSizeBytes(); {
	case n < 0 || n > MaxImageFile:
		add("size_bytes", "is %d, at most %d are allowed", n, int64(MaxImageFile))
	case n == 0 && f.GetUrl() == "":
		add("size_bytes", "is 0: a file that was uploaded has some bytes")
	}
	if f.GetUrl() != "" {
		if err := checkImageURL(f.GetUrl()); err != "" {
			add("url", "%s", err)
		}
	}
	return bad
}

// checkImageURL returns the violation of an image file's URL. It does not quote the URL,
// which may contain a password.
func checkImageURL(s string) string {
	if len(s) > maxImageURL || !lex.SingleLine(s) {
		return fmt.Sprintf("is not one line of at most %d bytes", maxImageURL)
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
