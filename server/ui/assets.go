package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"time"
)

//go:embed static
var static embed.FS

// assets are the files that pages load. The name of each has a hash of all in it, so browsers keep
// them for good, and a new version is another name.
type assets struct {
	hash  string
	files map[string][]byte
}

func loadAssets() *assets {
	a, sum := &assets{files: map[string][]byte{}}, sha256.New()
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic(err) // it is in the binary
	}
	for _, e := range entries {
		b, err := static.ReadFile(path.Join("static", e.Name()))
		if err != nil {
			panic(err)
		}
		a.files[e.Name()] = b
		_, _ = sum.Write(append([]byte(e.Name()), b...))
	}
	a.hash = hex.EncodeToString(sum.Sum(nil)[:8])
	return a
}

// url is where a file is.
func (a *assets) url(name string) string { return "/ui/assets/" + a.hash + "/" + name }

// serve answers a file under whatever hash: a page of another peer's build gets ours, once.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, ok := a.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.PathValue("hash") == a.hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", mimeOf(name))
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(b))
}

// mimeOf does not ask the host's own table for what we have.
func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}
