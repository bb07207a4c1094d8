package ui

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed templates
var templates embed.FS

// pages are the parsed templates, each within the layout.
type pages struct{ all map[string]*template.Template }

func loadPages(a *assets) *pages {
	p := &pages{all: map[string]*template.Template{}}
	base := template.Must(template.New("layout.html").Funcs(functions(a)).
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
		p.all[name] = template.Must(template.Must(base.Clone()).ParseFS(templates, n))
	}
	return p
}

// show writes a page. If the template fails, it writes an error instead of a partial page.
func (d *dashboard) show(w http.ResponseWriter, r *http.Request, code int, name string, v *view) {
	var b bytes.Buffer
	if err := d.pages.all[name].ExecuteTemplate(&b, "layout.html", v); err != nil {
		d.log.Error("rendering a dashboard page failed", "page", name, "error", err)
		http.Error(w, "This page could not be rendered; see the log of this peer.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // the client has disconnected
	}
}
