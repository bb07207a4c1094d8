// Command release creates the files of a release from existing binaries: packages (deb and
// rpm, described by deploy/packages), a bill of materials for each binary (CycloneDX, from
// the build information), and SHA256SUMS of all files. tools/release.sh calls it.
//
// The same input yields the same bytes: the time is SOURCE_DATE_EPOCH, and nothing depends
// on the machine. It is a separate module because of the dependencies of nfpm.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version of all packages.
type release struct {
	version string
	stage   string // the files of packages: STAGE/ARCH/NAME are the binaries
	out     string
	at      time.Time
}

func run(args []string) error {
	var r release
	var arches string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "the version, such as 1.2.3")
	flags.StringVar(&r.stage, "stage", "",
		"directory with the files of packages, and with a directory of binaries for each architecture")
	flags.StringVar(&r.out, "out", "", "directory for the packages")
	flags.StringVar(&arches, "arches", "amd64,arm64", "architectures, with Go's names")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.version == "" || r.stage == "" || r.out == "" || flags.NArg() == 0 {
		return fmt.Errorf("want -version, -stage, -out, and the files that describe packages")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q: set it to the seconds since 1970 of the commit "+
			"(git log -1 --format=%%ct)", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	r.at = time.Unix(seconds, 0).UTC()
	for _, config := range flags.Args() {
		for arch := range strings.SplitSeq(arches, ",") {
			if err := r.one(config, arch); err != nil {
				return fmt.Errorf("%s for %s: %w", filepath.Base(config), arch, err)
			}
		}
	}
	return sums(r.out)
}

// one creates all files of one binary, which has the name of its package description.
func (r release) one(config, arch string) error {
	name := strings.TrimSuffix(filepath.Base(config), ".yaml")
	binary := filepath.Join(r.stage, arch, name)
	plain := fmt.Sprintf("%s_%s_linux_%s", name, r.version, arch)
	raw, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.out, plain), raw, 0o755); err != nil { //nolint:gosec // a release is public
		return fmt.Errorf("copy the binary: %w", err)
	}
	if err := r.bill(binary, raw, filepath.Join(r.out, plain+".cdx.json")); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.pack(config, arch, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}
