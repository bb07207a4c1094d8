package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// The names of formats, and those of this build. docs/packages.md describes the build.
const (
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	repository    = "https://github.com/holdfast-metal/holdfast"
	buildType     = repository + "/blob/main/docs/packages.md#provenance"
	builderID     = repository + "/blob/main/tools/release.sh"
)

// commit matches the name of a commit whose files are those of the build.
var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// statement is a statement of in-toto about files, whose predicate is SLSA's provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// resource is a file or another input of a build.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// provenance states how the subjects were built. It has no field for the time of the build,
// which would make two builds differ.
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   parameters        `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// parameters are what a person chooses for a build.
type parameters struct {
	Version       string   `json:"version"`
	Architectures []string `json:"architectures"`
}

// state writes the provenance of all files in r.out, for packages with these descriptions.
func (r release) state(configs []string) error {
	all, err := sums(r.out)
	if err != nil {
		return err
	}
	s := statement{Type: statementType, PredicateType: predicateType}
	for _, f := range all {
		s.Subject = append(s.Subject, resource{Name: f.name, Digest: map[string]string{"sha256": f.sha256}})
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = buildType
	definition.ExternalParameters = parameters{Version: r.version, Architectures: r.arches}
	definition.InternalParameters = map[string]string{"SOURCE_DATE_EPOCH": fmt.Sprint(r.at.Unix())}
	if definition.ResolvedDependencies, err = r.inputs(configs); err != nil {
		return err
	}
	s.Predicate.RunDetails.Builder.ID = builderID
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return publish(filepath.Join(r.out, provenanceFile), append(text, '\n'))
}

// inputs returns the source, the release of Go, and the files that pin everything else. The
// source has a digest only if the commit has exactly the files that were built.
func (r release) inputs(configs []string) ([]resource, error) {
	source := resource{Name: "source", URI: "git+" + repository}
	if commit.MatchString(r.revision) {
		source.Digest = map[string]string{"gitCommit": r.revision}
	}
	info, err := buildinfo.ReadFile(r.binary(configs[0], r.arches[0]))
	if err != nil {
		return nil, fmt.Errorf("read the build information of %s: %w", name(configs[0]), err)
	}
	all := []resource{source, {Name: "go", URI: "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, file := range r.locks {
		digest, err := sumOf(file)
		if err != nil {
			return nil, err
		}
		all = append(all, resource{Name: filepath.ToSlash(file), Digest: map[string]string{"sha256": digest}})
	}
	return all, nil
}
