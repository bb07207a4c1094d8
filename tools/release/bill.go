package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
)

// bill writes the modules linked into a binary, their versions, and the version of Go.
func (r release) bill(binary string, raw []byte, out string) (err error) {
	info, err := buildinfo.Read(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("read the build information of %s: %w", binary, err)
	}
	self := component(info.Main.Path, "v"+r.version, cyclonedx.ComponentTypeApplication)
	self.BOMRef += "#" + filepath.Base(binary)
	self.Name = filepath.Base(binary)
	self.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(raw))}}
	self.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}

	parts := parts(info, r.version)
	refs := make([]string, 0, len(parts))
	for _, p := range parts {
		refs = append(refs, p.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.at.Format(time.RFC3339), Component: &self}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}

	file, err := os.Create(out)
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	return nil
}

// noVersion is the version that Go gives to a directory, also to a module of a workspace.
const noVersion = "(devel)"

// parts returns Go and the modules that are linked into a binary. Those of this repository have its
// version: they are replaced by directories, and a directory has none.
func parts(info *buildinfo.BuildInfo, version string) []cyclonedx.Component {
	all := []cyclonedx.Component{
		component("stdlib", strings.TrimPrefix(info.GoVersion, "go"), cyclonedx.ComponentTypeLibrary),
	}
	for _, m := range info.Deps {
		switch {
		case m.Version == noVersion, m.Replace != nil && m.Replace.Version == noVersion:
			m = &debug.Module{Path: m.Path, Version: "v" + version}
		case m.Replace != nil:
			m = m.Replace
		}
		all = append(all, component(m.Path, m.Version, cyclonedx.ComponentTypeLibrary))
	}
	return all
}

// component returns a module as vulnerability databases name it: pkg:golang/PATH@VERSION.
func component(path, version string, kind cyclonedx.ComponentType) cyclonedx.Component {
	space, name := "", path
	if i := strings.LastIndex(path, "/"); i >= 0 {
		space, name = path[:i], path[i+1:]
	}
	url := packageurl.NewPackageURL(packageurl.TypeGolang, space, name, version, nil, "").ToString()
	return cyclonedx.Component{Type: kind, BOMRef: url, Name: path, Version: version, PackageURL: url}
}
