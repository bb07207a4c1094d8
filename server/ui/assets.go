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

// assets are the static files of pages. Their URLs contain a hash of all files, so browsers
// can cache them permanently.
type assets struct {
	hash  string
	files map[string][]byte
}

func loadAssets() *assets {
	a, sum := &assets{files: map[string][]byte{}}, sha256.New()
	entries, err := fs.ReadDir(static, "static")
	if err != nil {
		panic(err) // the files are embedded
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

// url returns the URL of a file.
func (a *assets) url(name string) string { return "/ui/assets/" + a.hash + "/" + name }

// serve serves a file under any hash. A page from another peer's build gets this peer's
// version, without caching.
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

// mimeOf returns the media type of a file without consulting the host's MIME table.
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
