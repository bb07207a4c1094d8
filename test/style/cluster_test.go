package style

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxWires is how many files package cluster may have: it wires its parts, has the status, and the
// RPCs between peers.
const maxWires = 12

// onTop lists the types of package cluster that may hold the whole Peer, because no part of it
// calls them: they answer other peers, and report.
func onTop() []string { return []string{"peerServer", "reporter", "standing"} }

// checkParts lists the parts of package cluster that know the whole: a package below
// cluster/internal that uses a type of cluster, or a type of cluster with a field of type Peer. It
// also reports too many files in cluster.
func checkParts(files []source) []string {
	var found []string
	n := 0
	for _, s := range files {
		dir := path.Dir(s.path)
		switch {
		case strings.HasPrefix(dir, "cluster/internal/"):
			for _, i := range s.file.Imports {
				if i.Path.Value == strconv.Quote(module+"/cluster") {
					found = append(found, fmt.Sprintf("%s: a part must not know the peer: take the functions that it needs",
						s.at(i.Pos())))
				}
			}
		case dir == "cluster" && !s.inTestFile():
			n++
			for decl := range ast.Preorder(s.file) {
				t, ok := decl.(*ast.TypeSpec)
				if !ok || slices.Contains(onTop(), t.Name.Name) {
					continue
				}
				if st, ok := t.Type.(*ast.StructType); ok && slices.ContainsFunc(st.Fields.List, holdsPeer) {
					found = append(found, fmt.Sprintf("%s: type %s holds the whole Peer: give it the functions that it needs, "+
						"in a package below cluster/internal", s.at(t.Pos()), t.Name.Name))
				}
			}
		}
	}
	if n > maxWires {
		found = append(found, fmt.Sprintf("cluster: has %d files, more than %d: move a part below cluster/internal", n,
			maxWires))
	}
	return found
}

// holdsPeer reports whether the type of a field is Peer, or a pointer to it.
func holdsPeer(f *ast.Field) bool {
	t := f.Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.Name == "Peer"
}

func TestPartsOfCluster(t *testing.T) {
	for _, f := range checkParts(sources(t)) {
		t.Error(f)
	}
}

func TestCheckParts(t *testing.T) {
	args := []string{
		"cluster/internal/a/a.go", "package a\n\nimport \"" + module + "/cluster\"\n\ntype T struct{ n *cluster.Peer }\n",
		"cluster/internal/a/leaf.go", "package a\n\nimport \"" + module + "/cluster/leader\"\n\nvar t leader.Term\n",
		"cluster/terms.go", "package cluster\n\ntype terms struct {\n\tn *Peer\n}\n\ntype Peer struct{ terms *terms }\n\n" +
			"type peerServer struct{ n *Peer }\n",
		"cluster/x_test.go", "package cluster\n\ntype lab struct{ n *Peer }\n",
	}
	for i := range maxWires {
		args = append(args, fmt.Sprintf("cluster/f%d.go", i), "package cluster\n")
	}
	want := []string{
		"cluster/internal/a/a.go:3: a part must not know the peer: take the functions that it needs",
		"cluster/terms.go:3: type terms holds the whole Peer: give it the functions that it needs, in a package below " +
			"cluster/internal",
		"cluster: has 13 files, more than 12: move a part below cluster/internal",
	}
	if diff := cmp.Diff(want, checkParts(madeUp(t, args...))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
