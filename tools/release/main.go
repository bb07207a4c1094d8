// Command release creates the files of a release from existing binaries: packages (deb and
// rpm, described by deploy/packages), a bill of materials for each binary (CycloneDX, from
// the build information), OCI images, and SHA256SUMS of all files. tools/release.sh calls it.
//
// The same input yields the same bytes: the time is SOURCE_DATE_EPOCH, and nothing depends
// on the machine. It is a separate module because of the dependencies of nfpm.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version of all packages.
type release struct {
	version  string
	revision string // commit
	stage    string // the files of packages: STAGE/ARCH/NAME are the binaries
	out      string
	arches   []string
	at       time.Time
}

func run(ctx context.Context, args []string) error {
	var r release
	var arches, images string
	var debs debs
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "the version, such as 1.2.3")
	flags.StringVar(&r.stage, "stage", "",
		"directory with the files of packages, and with a directory of binaries for each architecture")
	flags.StringVar(&r.out, "out", "", "directory for the packages")
	flags.StringVar(&arches, "arches", "amd64,arm64", "architectures, with Go's names")
	flags.StringVar(&r.revision, "revision", "", "the commit, for labels of images")
	flags.StringVar(&images, "images", "", "binaries that get an image")
	flags.StringVar(&debs.list, "debs-list", "deploy/container/debs.txt", "file with the Debian packages of images")
	flags.StringVar(&debs.dir, "debs", "bin/image-debs", "directory for these packages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.version == "" || r.stage == "" || r.out == "" || flags.NArg() == 0 && images == "" {
		return fmt.Errorf("want -version, -stage, -out, and the files that describe packages, or -images")
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q: set it to the seconds since 1970 of the commit "+
			"(git log -1 --format=%%ct)", os.Getenv("SOURCE_DATE_EPOCH"))
	}
	r.at = time.Unix(seconds, 0).UTC()
	r.arches = strings.Split(arches, ",")
	for _, config := range flags.Args() {
		for _, arch := range r.arches {
			if err := r.one(config, arch); err != nil {
				return fmt.Errorf("%s for %s: %w", filepath.Base(config), arch, err)
			}
		}
	}
	for name := range strings.FieldsFuncSeq(images, func(c rune) bool { return c == ',' }) {
		if err := r.image(ctx, name, debs); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
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
