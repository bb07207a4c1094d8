package main

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const holdfast = "github.com/holdfast-metal/holdfast"

// publishModule puts a module into a directory that serves as a module proxy, as its tag does.
func publishModule(t *testing.T, proxy, name, version string) {
	t.Helper()
	source, versions := filepath.Join("../..", name), filepath.Join(proxy, holdfast, name, "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(versions, version)
	write(t, at+".info", `{"Version": "`+version+`"}`)
	write(t, at+".mod", read(t, filepath.Join(source, "go.mod")))
	file, err := os.Create(at + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(file)
	err = filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		out, err := w.Create(holdfast + "/" + name + "@" + version + "/" + filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		_, err = out.Write([]byte(read(t, path)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSDKOfARelease builds a program with the SDK as a module proxy serves it: without this
// repository, and without the module of the peers.
func TestSDKOfARelease(t *testing.T) {
	v, dir, proxy := "v"+version(t), t.TempDir(), t.TempDir()
	publishModule(t, proxy, "proto", v)
	publishModule(t, proxy, "client", v)
	write(t, filepath.Join(dir, "go.mod"), "module user\n\ngo 1.26\n\nrequire "+holdfast+"/client "+v+"\n")
	write(t, filepath.Join(dir, "go.sum"), read(t, "../../client/go.sum"))
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport "+strconv.Quote(holdfast+"/client")+
		"\n\nfunc main() { _, _ = client.Dial(client.Config{}) }\n")
	cached, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	cache, upstream, _ := strings.Cut(strings.TrimSpace(string(cached)), "\n")
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -trimpath", "GOSUMDB=off",
			"GOMODCACHE="+t.TempDir(),
			"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache/download")+","+upstream)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("build", "-o", os.DevNull, ".")
	if all := run("list", "-m", "all"); strings.Contains(all, holdfast+" ") {
		t.Errorf("a program with the SDK has the module of the peers in its graph:\n%s", all)
	}
}
