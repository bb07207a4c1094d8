package manifest

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
)

// Kind is a kind of documents in a file with several kinds.
type Kind struct {
	List  string // the key of a list of them: machines
	ID    string // the key that only they have at the top, and that each must have: machine_id
	Empty func() proto.Message
}

// Mixed reads every document of the sources like Decode. The list that contains it, or its id
// field, selects its kind. The result has one element per kind, with its documents in the order
// of the sources.
func Mixed(sources []Source, kinds []Kind) ([][]proto.Message, error) {
	r := mixed{kinds: kinds, out: make([][]proto.Message, len(kinds)), first: map[string]*Error{}}
	for _, s := range sources {
		if err := r.read(s); err != nil {
			return nil, locate(s.File, err)
		}
	}
	return r.out, nil
}

// mixed is the state of Mixed.
type mixed struct {
	kinds []Kind
	out   [][]proto.Message
	first map[string]*Error // the place of each document, by kind and id
}

func (r *mixed) read(s Source) error {
	docs, err := parse(s.Data)
	if err != nil {
		return err
	}
	n := 0
	for _, doc := range docs {
		for _, one := range spread(doc, r.kinds) {
			k, m, id, err := one.decode(r.kinds)
			if err != nil {
				return err
			}
			key := r.kinds[k].ID + " " + id
			if first := r.first[key]; first != nil {
				return &Error{Line: one.node.Line,
					Msg: fmt.Sprintf("duplicate %s %q: first in %s", r.kinds[k].ID, id, first.place())}
			}
			r.first[key] = &Error{File: s.File, Line: one.node.Line}
			r.out[k] = append(r.out[k], m)
			n++
		}
	}
	if n == 0 {
		return errNoDocument()
	}
	return nil
}

// element is a document, and its kind if a list determines it.
type element struct {
	node *yaml.Node
	kind int // -1: by its id
}

// spread returns the elements of lists, bare or under the keys of kinds.
func spread(n *yaml.Node, kinds []Kind) []element {
	var all []element
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			all = append(all, element{item, -1})
		}
		return all
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return []element{{n, -1}}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := slices.IndexFunc(kinds, func(k Kind) bool { return k.List == n.Content[i].Value })
		if k < 0 || n.Content[i+1].Kind != yaml.SequenceNode {
			return []element{{n, -1}}
		}
		for _, item := range n.Content[i+1].Content {
			all = append(all, element{item, k})
		}
	}
	return all
}

// decode reads a document and returns its kind and id.
func (e element) decode(kinds []Kind) (kind int, m proto.Message, id string, err error) {
	n := e.node
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if err := e.oneKind(n, kinds); err != nil {
		return 0, nil, "", err
	}
	var wanted []string
	for k := range kinds {
		if e.kind >= 0 && k != e.kind {
			continue
		}
		wanted = append(wanted, kinds[k].ID)
		m := kinds[k].Empty()
		fd := m.ProtoReflect().Descriptor().Fields().ByTextName(kinds[k].ID)
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if key := n.Content[i].Value; key != kinds[k].ID && key != fd.JSONName() {
				continue
			}
			if err := decodeOne(e.node, m); err != nil {
				return 0, nil, "", err
			}
			if id := m.ProtoReflect().Get(fd).String(); id != "" {
				return k, m, id, nil
			}
		}
	}
	if e.node.Kind == yaml.MappingNode && len(e.node.Content) > 0 && slices.ContainsFunc(e.node.Content,
		func(n *yaml.Node) bool { return n.Value == "apiVersion" }) {
		return 0, nil, "", &Error{Line: e.node.Line, Msg: "this is a Kubernetes manifest: documents have the fields of the " +
			"Holdfast API: see: holdfast explain machine"}
	}
	msg := "the document has no id: give it one of " + strings.Join(wanted, ", ")
	if n.Kind != yaml.MappingNode {
		msg = "the document has no keys: a document begins with one of " + strings.Join(wanted, ", ") +
			`, such as "machine_id: m-1"`
	}
	return 0, nil, "", &Error{Line: e.node.Line, Msg: msg}
}

// oneKind returns an error if a document has the ids of two kinds.
func (e element) oneKind(n *yaml.Node, kinds []Kind) error {
	first := ""
	for i := 0; n.Kind == yaml.MappingNode && e.kind < 0 && i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.ContainsFunc(kinds, func(k Kind) bool { return k.ID == key.Value }) || key.Value == first {
			continue
		}
		if first != "" {
			return &Error{Line: key.Line, Msg: fmt.Sprintf("the document has %s and %s: it is one or the other: put --- "+
				"between two documents", first, key.Value)}
		}
		first = key.Value
	}
	return nil
}
