package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/google/go-cmp/cmp"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

const head = "0123456789abcdef0123456789abcdef01234567"

// made returns a release of two files, whose binary is this test.
func made(t *testing.T) release {
	t.Helper()
	r := release{version: "1.2.3", revision: head, stage: t.TempDir(), out: t.TempDir(),
		arches: []string{"amd64", "arm64"}, at: time.Unix(1790000000, 0).UTC(), locks: []string{"go.sum"}}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.stage, "amd64"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(r.stage, "amd64", "holdfast")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.out, "a.deb"), "one")
	write(t, filepath.Join(r.out, "b.rpm"), "two")
	return r
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// newKey returns a key made of one repeated byte, as text.
func newKey(t *testing.T, of byte) (minisign.PublicKey, []byte) {
	t.Helper()
	public, private, err := minisign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{of}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return public, text
}

// signed seals a release with the key, and returns the text of its signature.
func signed(t *testing.T, r release, key []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, string(key)+"\n")
	parsed, err := readKey(file, "")
	if err != nil {
		t.Fatal(err)
	}
	r.key = &parsed
	if err := r.seal([]string{"deploy/packages/holdfast.yaml"}); err != nil {
		t.Fatal(err)
	}
	return read(t, filepath.Join(r.out, signatureFile))
}

// verifies reports whether the signature of a message is that of a key.
func verifies(t *testing.T, key minisign.PublicKey, message, signature string) bool {
	t.Helper()
	m := minisign.NewReader(strings.NewReader(message))
	if _, err := io.Copy(io.Discard, m); err != nil {
		t.Fatal(err)
	}
	return m.Verify(key, []byte(signature))
}

func TestSignature(t *testing.T) {
	r := made(t)
	public, key := newKey(t, 1)
	other, _ := newKey(t, 2)
	signature := signed(t, r, key)
	message := read(t, filepath.Join(r.out, sumsFile))

	if got := signed(t, made(t), key); got != signature {
		t.Errorf("the same files and key gave two signatures:\n%s\n%s", signature, got)
	}
	changed := []byte(message)
	changed[0] ^= 1
	lied := strings.Replace(signature, "1.2.3\ttimestamp", "1.2.4\ttimestamp", 1)
	for _, tt := range []struct {
		name               string
		key                minisign.PublicKey
		message, signature string
		want               bool
	}{
		{"as it is", public, message, signature, true},
		{"another byte", public, string(changed), signature, false},
		{"one byte less", public, message[:len(message)-1], signature, false},
		{"another key", other, message, signature, false},
		{"another version in the trusted comment", public, message, lied, false},
	} {
		if got := verifies(t, tt.key, tt.message, tt.signature); got != tt.want {
			t.Errorf("%s: got verified %t, want %t", tt.name, got, tt.want)
		}
	}
	var s minisign.Signature
	if err := s.UnmarshalText([]byte(signature)); err != nil {
		t.Fatal(err)
	}
	if want := "holdfast 1.2.3\ttimestamp:1790000000\tfile:SHA256SUMS"; s.TrustedComment != want {
		t.Errorf("got trusted comment %q, want %q", s.TrustedComment, want)
	}
}

// No file of a release, no output and no error contains the key or its password.
func TestKeyStaysSecret(t *testing.T) {
	r := made(t)
	_, key := newKey(t, 3)
	secret := strings.Split(string(key), "\n")[1]
	signed(t, r, key)
	const password = "correct horse"
	file := filepath.Join(t.TempDir(), "key")
	var outputs []string
	for _, text := range []string{string(key), secret, "encrypted " + secret, secret[:20]} {
		write(t, file, text)
		var out strings.Builder
		err := run(t.Context(), []string{"-sign-key", file, "-public-key"}, func(string) string { return password }, &out)
		outputs = append(outputs, out.String())
		if err != nil {
			outputs = append(outputs, err.Error())
		}
	}
	files, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		outputs = append(outputs, read(t, filepath.Join(r.out, f.Name())))
	}
	for _, out := range outputs {
		// Letters 84 to 124 are of the secret half.
		for _, leak := range []string{secret, secret[84:124], password} {
			if strings.Contains(out, leak) {
				t.Errorf("an output has a part of the key or its password:\n%s", out)
			}
		}
	}
}

func TestReadKey(t *testing.T) {
	_, key := newKey(t, 1)
	var private minisign.PrivateKey
	if err := private.UnmarshalText(key); err != nil {
		t.Fatal(err)
	}
	// The same key, encrypted with the password "correct" at the least cost that minisign reads:
	// its own takes seconds and 1 GiB.
	const encrypted = "untrusted comment: minisign encrypted secret key\n" +
		"RWRTY0IyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAAAAAAEAAAAAllP61RkhKD+bXFBq7P3tNVInqfFyH6ohd+bDTOJW" +
		"ntqL+m64h2HjIrKig8HVHNRAUFONGe/TM2FUg8z1qvWGbKhJocn0C8wfL/LtwztYNyUfbxd9mo5a8pqntFH/wyCDe81Fm/cV1do="
	for _, tt := range []struct {
		name, text, password string
		mode                 os.FileMode
		want                 string // of the error
	}{
		{"plain", string(key), "", 0o600, ""},
		{"end of a line", string(key) + "\n", "", 0o400, ""},
		{"others can read it", string(key), "", 0o644, "its mode is 0644, so others can read it: run chmod 600"},
		{"the group can read it", string(key), "", 0o640, "its mode is 0640, so others can read it: run chmod 600"},
		{"empty", "", "", 0o600, "minisign: invalid private key: want a file that minisign -G has made"},
		{"encrypted", encrypted, "correct", 0o600, ""},
		{"encrypted, without a password", encrypted, "", 0o600,
			"it is encrypted: set SIGN_PASSWORD to its password"},
		{"encrypted, wrong password", encrypted, "wrong", 0o600, "is SIGN_PASSWORD its password?"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		write(t, file, tt.text)
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		got, err := readKey(file, tt.password)
		switch {
		case tt.want == "" && (err != nil || !got.Equal(private)):
			t.Errorf("%s: got error %v, or another key", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := readKey(filepath.Join(t.TempDir(), "none"), ""); err == nil ||
		err.Error() != "no such file or directory" {
		t.Errorf("no file: got error %v, want no such file or directory", err)
	}
}

// The libraries of in-toto and SLSA read the provenance, and it names every file.
func TestProvenance(t *testing.T) {
	r := made(t)
	if err := r.seal([]string{"deploy/packages/holdfast.yaml"}); err != nil {
		t.Fatal(err)
	}
	var s intoto.Statement
	if err := protojson.Unmarshal([]byte(read(t, filepath.Join(r.out, provenanceFile))), &s); err != nil {
		t.Fatalf("read the provenance as a statement: %v", err)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("the statement is invalid: %v", err)
	}
	raw, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	var p slsa.Provenance
	if err := protojson.Unmarshal(raw, &p); err != nil {
		t.Fatalf("read the predicate: %v", err)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("the predicate is invalid: %v", err)
	}
	got := map[string]string{}
	for _, subject := range s.GetSubject() {
		got[subject.GetName()] = subject.GetDigest()["sha256"]
	}
	want := map[string]string{
		"a.deb": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
		"b.rpm": "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if text := read(t, filepath.Join(r.out, sumsFile)); !strings.Contains(text, "  "+provenanceFile+"\n") {
		t.Errorf("the sums lack the provenance:\n%s", text)
	}
	inputs := p.GetBuildDefinition().GetResolvedDependencies()
	if got := inputs[0].GetDigest()["gitCommit"]; got != head {
		t.Errorf("got source %q, want %q", got, head)
	}
	if got := inputs[2]; got.GetName() != "go.sum" || len(got.GetDigest()["sha256"]) != 64 {
		t.Errorf("got %v, want the sum of go.sum", got)
	}
}

// The provenance claims no commit that has other files.
func TestProvenanceOfChangedFiles(t *testing.T) {
	for _, revision := range []string{head + "-dirty", ""} {
		r := made(t)
		r.revision = revision
		if err := r.seal([]string{"deploy/packages/holdfast.yaml"}); err != nil {
			t.Fatal(err)
		}
		if text := read(t, filepath.Join(r.out, provenanceFile)); strings.Contains(text, "gitCommit") {
			t.Errorf("revision %q: the provenance names a commit:\n%s", revision, text)
		}
	}
}

// Images that join an earlier build end its provenance and its signature.
func TestImagesAloneAreNotSigned(t *testing.T) {
	r := made(t)
	_, key := newKey(t, 1)
	signed(t, r, key)
	write(t, filepath.Join(r.out, "c-oci.tar"), "three")
	if err := r.seal(nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	files, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got = append(got, f.Name())
	}
	if diff := cmp.Diff([]string{sumsFile, "a.deb", "b.rpm", "c-oci.tar"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if text := read(t, filepath.Join(r.out, sumsFile)); strings.Count(text, "\n") != 3 {
		t.Errorf("got sums of other files than the three:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, string(key))
	err = run(t.Context(), []string{"-version", "1.2.3", "-stage", r.stage, "-out", r.out, "-images", "holdfast",
		"-sign-key", file}, func(string) string { return "1790000000" }, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "sign images alone: ") {
		t.Errorf("images with a key: got error %v, want a refusal", err)
	}
}
