package installer

import (
	"net/url"
	"slices"
	"strings"
)

// urls are the places where the image is: the one that was ordered, the same path on the other
// peers when it is one of theirs, and all peers by its sum. Those that answered the installer last
// come before the others.
func (w *work) urls() []string {
	im, servers := w.order.Image, w.Client.Servers()
	var all []string
	add := func(u string) {
		if !slices.Contains(all, u) {
			all = append(all, u)
		}
	}
	u, err := url.Parse(im.URL)
	ours := err == nil && (u.Host == "" || slices.ContainsFunc(servers, func(s string) bool { return strings.HasPrefix(im.URL, s+"/") }))
	if !ours {
		add(im.URL)
	}
	for _, s := range servers {
		if ours {
			base, _ := url.Parse(s)
			base.Path, base.RawPath, base.RawQuery = u.Path, u.RawPath, u.RawQuery
			add(base.String())
		}
	}
	for _, s := range servers {
		add(s + "/images/sha256/" + im.SHA256)
	}
	return all
}
