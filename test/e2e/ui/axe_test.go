package ui

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// axe-core (MPL-2.0) is a tool of this test, and part of no binary. It comes from npm's registry,
// with this version and checksum.
const (
	axeVersion = "4.14.1"
	axeFile    = "package/axe.min.js"
	axeSum     = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
)

// axeSource downloads axe-core. It returns "" if npm or its registry is unavailable, and fails the
// test if the checksum is wrong.
func axeSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "npm", "pack", "axe-core@"+axeVersion, "--ignore-scripts",
		"--pack-destination", dir).CombinedOutput(); err != nil {
		t.Logf("NOT TESTED with axe-core: npm pack: %v\n%s", err, out)
		return ""
	}
	data, err := os.ReadFile(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("axe-core: got no file %s", axeFile)
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Name != axeFile {
			continue
		}
		source, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != axeSum {
			t.Fatalf("checksum of %s of axe-core %s: got %x, want %s", axeFile, axeVersion, sum, axeSum)
		}
		return string(source)
	}
}

// axe checks the page against all rules of axe-core: WCAG 2.2 A and AA, and best practice.
func (b *browser) axe(source string) []string {
	b.Helper()
	var found []string
	b.do(chromedp.Evaluate(source+"\n;true", nil), chromedp.Evaluate(`axe.run(document, {resultTypes: ["violations"]}).then((r) =>
		r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.html.slice(0, 200) + " " + (n.any[0]?.message || ""))))`, &found,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return found
}
