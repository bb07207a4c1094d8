package kube

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// classify adds a class to an error that has none. All effects of this package converge, so it does
// not matter whether one was done.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*providers.Error](err); ok {
		return err
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return providers.Errorf(classOf(err), op,
			"the API answered %d: %s", status.Status().Code, clip(status.Status().Message))
	}
	class, _ := guard.Classify(err, false)
	if class == providers.Unsupported {
		err = fmt.Errorf("%w: the CA of the cluster has changed since its registration: "+
			"register it again with holdfast cluster-ref add", err)
	}
	return providers.Errorf(class, op, "%w", err)
}

func classOf(err error) providers.Class {
	switch {
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return providers.Auth
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return providers.Timeout
	case apierrors.IsInvalid(err),
		apierrors.IsBadRequest(err),
		apierrors.IsMethodNotSupported(err),
		apierrors.IsNotFound(err),
		apierrors.IsNotAcceptable(err):
		return providers.Unsupported
	}
	return providers.Transient
}

// maxText bounds foreign text in our errors and messages, in bytes.
const maxText = 400

func clip(s string) string { return text.Clip(mask(text.Line(s)), maxText) }

// tail keeps the end of a command's output, which has the reason of a failure.
func tail(s string) string {
	s = mask(text.Line(s))
	if len(s) > maxText {
		s = "…" + strings.ToValidUTF8(s[len(s)-maxText:], "")
	}
	return s
}

// secrets matches bootstrap tokens and certificate keys in any text.
var secrets = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b|\b[0-9a-f]{64}\b`)

func mask(s string) string {
	return secrets.ReplaceAllStringFunc(s, func(found string) string {
		if id, _, ok := strings.Cut(found, "."); ok {
			return id + ".****"
		}
		return "****"
	})
}
