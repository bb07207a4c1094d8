package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/server/ui/internal/display"
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

//go:embed templates
var templates embed.FS

// pages are the parsed templates by name, each within the layout.
type pages map[string]*template.Template

func loadPages(a *assets) pages {
	p := pages{}
	base := template.Must(template.New("layout.html").Funcs(display.Functions(a.url)).
		ParseFS(templates, "templates/layout.html", "templates/parts.html"))
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is valid
	}
	for _, n := range names {
		name := strings.TrimSuffix(path.Base(n), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		p[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, n))
	}
	return p
}

// show writes a page. If the template fails, it writes an error instead of a partial page.
func (d *dashboard) show(w http.ResponseWriter, r *http.Request, code int, name string, v *view) {
	var b bytes.Buffer
	if err := d.pages[name].ExecuteTemplate(&b, "layout.html", v); err != nil {
		d.log.Error("rendering a dashboard page failed", "page", name, "error", err)
		http.Error(w, "This page could not be rendered; see the log of this peer.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(display.Marked(b.Bytes())) // the client has disconnected
	}
}
