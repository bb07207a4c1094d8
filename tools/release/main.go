// Command release creates the files of a release from existing binaries: packages (deb and
// rpm, described by deploy/packages), a bill of materials for each binary (CycloneDX, from
// the build information), OCI images, the provenance of all of them (SLSA), SHA256SUMS, and
// its signature (minisign). tools/release.sh calls it.
//
// The same input yields the same bytes: the time is SOURCE_DATE_EPOCH, and nothing depends
// on the machine. It is a separate module because of the dependencies of nfpm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"aead.dev/minisign"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version of all packages.
type release struct {
	version  string
	revision string // the commit, with the suffix -dirty if files differ from it; empty if unknown
	stage    string // the files of packages: STAGE/ARCH/NAME are the binaries
	out      string
	arches   []string
	at       time.Time
	locks    []string             // files that pin what the release is made of
	key      *minisign.PrivateKey // nil: the release is not signed
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var r release
	var arches, images, locks, keyFile string
	var public bool
	var debs debs
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.version, "version", "", "the version, such as 1.2.3")
	flags.StringVar(&r.stage, "stage", "",
		"directory with the files of packages, and with a directory of binaries for each architecture")
	flags.StringVar(&r.out, "out", "", "directory for the packages")
	flags.StringVar(&arches, "arches", "amd64,arm64", "architectures, with Go's names")
	flags.StringVar(&r.revision, "revision", "", "the commit, for labels of images and the provenance; "+
		"with the suffix -dirty if files differ from it")
	flags.StringVar(&images, "images", "", "binaries that get an image")
	flags.StringVar(&debs.list, "debs-list", "deploy/container/debs.txt", "file with the Debian packages of images")
	flags.StringVar(&debs.dir, "debs", "bin/image-debs", "directory for these packages")
	flags.StringVar(&locks, "locks", "", "files that pin what the release is made of, for the provenance")
	flags.StringVar(&keyFile, "sign-key", "",
		"file with the secret key of minisign that signs SHA256SUMS; its password is in SIGN_PASSWORD")
	flags.BoolVar(&public, "public-key", false, "print the public key of -sign-key, and make nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if keyFile != "" {
		key, err := readKey(keyFile, getenv("SIGN_PASSWORD"))
		if err != nil {
			return fmt.Errorf("read the key %s: %w", keyFile, err)
		}
		r.key = &key
	}
	if public {
		return r.printPublicKey(stdout)
	}
	if r.version == "" || r.stage == "" || r.out == "" || flags.NArg() == 0 && images == "" {
		return errors.New("want -version, -stage, -out, and the files that describe packages, or -images")
	}
	if r.key != nil && flags.NArg() == 0 {
		return errors.New("sign images alone: a signature is for a whole release: leave -sign-key out, or name the " +
			"files that describe packages")
	}
	seconds, err := strconv.ParseInt(getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q: set it to the seconds since 1970 of the commit "+
			"(git log -1 --format=%%ct)", getenv("SOURCE_DATE_EPOCH"))
	}
	r.at = time.Unix(seconds, 0).UTC()
	r.arches, r.locks = list(arches), list(locks)
	for _, config := range flags.Args() {
		for _, arch := range r.arches {
			if err := r.one(config, arch); err != nil {
				return fmt.Errorf("%s for %s: %w", filepath.Base(config), arch, err)
			}
		}
	}
	for _, name := range list(images) {
		if err := r.image(ctx, name, debs); err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
	}
	return r.seal(flags.Args())
}

// list returns the parts of a flag that are separated by commas.
func list(value string) []string {
	return strings.FieldsFunc(value, func(c rune) bool { return c == ',' })
}

// one creates all files of one binary, which has the name of its package description.
func (r release) one(config, arch string) error {
	raw, err := os.ReadFile(r.binary(config, arch))
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	plain := fmt.Sprintf("%s_%s_linux_%s", name(config), r.version, arch)
	if err := os.WriteFile(filepath.Join(r.out, plain), raw, 0o755); err != nil { //nolint:gosec // a release is public
		return fmt.Errorf("copy the binary: %w", err)
	}
	if err := r.bill(r.binary(config, arch), raw, filepath.Join(r.out, plain+".cdx.json")); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.pack(config, arch, format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

// name returns the name of the package and of the binary that a file describes.
func name(config string) string { return strings.TrimSuffix(filepath.Base(config), ".yaml") }

// binary returns the path of the binary of a package.
func (r release) binary(config, arch string) string {
	return filepath.Join(r.stage, arch, name(config))
}
