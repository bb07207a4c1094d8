package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// virtualMedia has the properties we need of a VirtualMedia resource.
type virtualMedia struct {
	ODataID    string // the path at which it was read
	ETag       string
	Image      string
	Inserted   *bool
	MediaTypes []string
	Insert     string // targets of the actions
	Eject      string
	Skipped    []string // errors of other virtual drives, which are not used
}

// notConnected is the value of ConnectedVia of an empty slot.
const notConnected = "NotConnected"

// mediaOf returns the virtual drive that a resource describes.
func mediaOf(r *resource) *virtualMedia {
	v := &virtualMedia{
		ODataID:    r.path,
		ETag:       r.etag,
		Image:      r.Word("Image"),
		MediaTypes: r.Words("MediaTypes"),
		Insert:     actionOf(r, "InsertMedia"),
		Eject:      actionOf(r, "EjectMedia"),
	}
	in, set := r.Flag("Inserted")
	if !set && r.Word("ConnectedVia", notConnected) == notConnected {
		set = true // an image of earlier
	}
	if set {
		v.Inserted = &in
	}
	return v
}

// actionOf returns the target of an action of a virtual drive, which is a text or a link.
func actionOf(r *resource, name string) string {
	return r.In("Actions", "#VirtualMedia."+name).Link("target")
}

// inserted returns the image in the slot, or "".
func (v *virtualMedia) inserted() string {
	if v.Inserted != nil && !*v.Inserted {
		return ""
	}
	return v.Image
}

// knownSlot returns the slot if it was read a moment ago, else it reads it. Thus the retry of a
// late change finds it prepared.
func (h *Host) knownSlot(ctx context.Context) (*virtualMedia, error) {
	h.mu.Lock()
	v, at := h.media, h.seenAt
	h.mu.Unlock()
	if v != nil && time.Since(at) < bootFresh {
		return v, nil
	}
	return h.slot(ctx)
}

// slot reads the slot for images. The known slot is kept until another one is found, because a BMC
// that is starting may show none for a while.
func (h *Host) slot(ctx context.Context) (*virtualMedia, error) {
	h.mu.Lock()
	known := h.media
	h.mu.Unlock()
	if known == nil {
		return h.findSlot(ctx)
	}
	v, err := h.readSlot(ctx, known.ODataID)
	if statusOf(err) == http.StatusNotFound {
		if v, err := h.findSlot(ctx); err == nil { // the slots may have been renamed
			return v, nil
		}
	}
	return v, notYet(err)
}

// findSlot searches the slots of the system, or else those of its manager.
func (h *Host) findSlot(ctx context.Context) (*virtualMedia, error) {
	s, err := h.known(ctx, bootFresh)
	if err != nil {
		return nil, err
	}
	collection := s.VirtualMedia.ID
	if collection == "" {
		m, err := h.manager(ctx)
		if err != nil {
			return nil, err
		}
		manager, err := h.c.readShown(ctx, m)
		if err != nil {
			return nil, err
		}
		collection = manager.Link("VirtualMedia")
	}
	if collection == "" {
		return nil, providers.Errorf(providers.Unsupported, "find virtual media",
			"the BMC shows none (some need a license for it)")
	}
	all, err := h.c.members(ctx, collection, maxMembers)
	if err != nil {
		return nil, err
	}
	v := pickSlot(all.members)
	switch {
	case v != nil:
	case len(all.unread) > 0: // one of those may be the right one
		return nil, fmt.Errorf("find virtual media: %w", notYet(all.unread[0].err))
	default:
		return nil, providers.Errorf(providers.Unsupported, "find virtual media",
			"none of the %d slots of the BMC accepts a CD", len(all.members))
	}
	for _, u := range all.unread {
		v.Skipped = append(v.Skipped, text.Clip(u.Error(), access.MaxText))
	}
	h.keepSlot(v)
	return v, nil
}

// pickSlot returns the first slot that accepts a CD or DVD and has an action to insert one. If no
// slot has one, it returns a slot that is changed by PATCH, preferably one for images at a URL:
// Lenovo's XCC lists those for uploaded files first. The choice does not depend on the contents of
// the slots, so that an inserted image is found again.
func pickSlot(all []*resource) (best *virtualMedia) {
	for _, r := range all {
		v := mediaOf(r)
		cd := len(v.MediaTypes) == 0 || slices.ContainsFunc(v.MediaTypes, func(t string) bool {
			return strings.EqualFold(t, "CD") || strings.EqualFold(t, "DVD")
		})
		fullSlot := v.inserted() != "" && v.Eject != "" // it may hide the action to insert
		switch {
		case cd && (v.Insert != "" || fullSlot):
			return v
		case cd && (best == nil || v.external() && !best.external()):
			best = v
		}
	}
	return best
}

// external reports whether the slot of a Lenovo BMC accepts a URL.
func (v *virtualMedia) external() bool {
	return strings.HasPrefix(path.Base(strings.TrimRight(v.ODataID, "/")), "EXT")
}

func (h *Host) readSlot(ctx context.Context, at string) (*virtualMedia, error) {
	r, err := h.c.read(ctx, at)
	if err != nil {
		return nil, err
	}
	v := mediaOf(r)
	h.mu.Lock()
	ours := h.media != nil && h.media.ODataID == at
	h.mu.Unlock()
	if ours {
		h.keepSlot(v)
	}
	return v, nil
}

func (h *Host) keepSlot(v *virtualMedia) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.media, h.seenAt = v, time.Now()
}

// changed makes the next knownSlot read the slot again, unless err is of class Late.
func (h *Host) changed(err error) {
	if providers.ClassOf(err) == providers.Late {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seenAt = time.Time{}
}

// Media returns the URL of the image in the slot, or "".
func (h *Host) Media(ctx context.Context) (string, error) {
	v, err := h.slot(ctx)
	if err != nil {
		return "", err
	}
	return v.inserted(), nil
}

// Insert puts an image into the slot and verifies it. A slot with another image has to be emptied
// first.
func (h *Host) Insert(ctx context.Context, url string) error {
	if url == "" {
		return providers.Errorf(providers.Unsupported, "insert virtual media", "the URL is empty")
	}
	v, err := h.knownSlot(providers.Unhurried(ctx))
	switch {
	case err != nil:
		return err
	case providers.SameMedium(v.inserted(), url):
		return nil
	case v.inserted() != "":
		return access.Disagree("insert virtual media: the slot has another image: eject it first")
	}
	if v.Insert != "" {
		err = h.insertBy(ctx, v.Insert, url)
		if inUse(err) && v.Eject != "" { // by an image that it does not show, or a console
			if _, eerr := h.c.do(ctx, request{method: http.MethodPost, path: v.Eject, body: struct{}{}}); eerr == nil {
				err = h.insertBy(ctx, v.Insert, url)
			}
		}
	} else {
		err = h.patchSlot(ctx, v, map[string]any{"Image": url, "Inserted": true, "WriteProtected": true})
	}
	h.changed(err)
	if err != nil && len(v.Skipped) > 0 {
		return fmt.Errorf("%w (another virtual drive cannot be read: %s)", err, v.Skipped[0])
	}
	if err != nil {
		return err
	}
	return h.seeMedia(providers.Unhurried(ctx), url)
}

// inUse reports whether a service refuses an image because the slot is attached or in use. Dell
// writes IDRAC.2.9.VRM0021 for both.
func inUse(err error) bool {
	r, ok := errors.AsType[*reply](err)
	return ok && r.has("VRM0021", "VRM0012", "ResourceInUse", "MediaInUse", "AlreadyInserted", "MediaAlready")
}

// insertBy calls the insert action with the image only. By default the standard inserts it
// write-protected, and Supermicro's X11 refuses explicit parameters. Some BMCs refuse an image
// without certain parameters. Those are kept, so that a retry after a late request needs only one
// request.
func (h *Host) insertBy(ctx context.Context, target, url string) error {
	scheme, _, _ := strings.Cut(url, "://")
	values := map[string]string{
		"TransferProtocolType": strings.ToUpper(scheme),
		"TransferMethod":       "Stream",
	}
	for {
		h.mu.Lock()
		wants := h.wants
		h.mu.Unlock()
		body := map[string]string{"Image": url}
		for _, w := range wants {
			body[w] = values[w]
		}
		err := h.change(ctx, request{method: http.MethodPost, path: target, body: body})
		var r *reply
		if !errors.As(err, &r) {
			return err
		}
		more := slices.Clone(wants)
		for name := range values {
			if body[name] == "" && r.names(name) {
				more = append(more, name)
			}
		}
		if len(more) == len(wants) {
			return err
		}
		h.mu.Lock()
		h.wants = more
		h.mu.Unlock()
	}
}

// Eject empties the slot and verifies it. It does nothing to an empty slot.
func (h *Host) Eject(ctx context.Context) error {
	v, err := h.knownSlot(providers.Unhurried(ctx))
	if err != nil || v.inserted() == "" {
		return err
	}
	if target := v.Eject; target != "" {
		err = h.change(ctx, request{method: http.MethodPost, path: target, body: struct{}{}})
	} else {
		err = h.patchSlot(ctx, v, map[string]any{"Image": nil, "Inserted": false})
	}
	h.changed(err)
	if err != nil {
		return err
	}
	return h.seeMedia(providers.Unhurried(ctx), "")
}

func (h *Host) patchSlot(ctx context.Context, v *virtualMedia, body any) error {
	r := request{method: http.MethodPatch, path: v.ODataID, body: body, match: v.ETag}
	if h.quirksNow().NoIfMatch {
		r.match = ""
	}
	return h.change(ctx, r)
}

func (h *Host) seeMedia(ctx context.Context, want string) error {
	return h.verify(ctx, "virtual media", func(ctx context.Context) (any, bool, error) {
		got, err := h.Media(ctx)
		shown := "empty" // a URL may hold a token
		if got != "" {
			shown = "another image"
		}
		return shown, providers.SameMedium(got, want), err
	})
}
