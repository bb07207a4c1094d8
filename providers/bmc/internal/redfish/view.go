package redfish

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/stmcginnis/gofish/common"
)

// view lets gofish read resources through our client, in the context of one operation. It cannot
// change anything.
type view struct {
	ctx context.Context
	c   *Client
}

var (
	_ common.Client = view{}

	errReadOnly = errors.New("not sent: gofish only reads here")
)

// Get reads a resource.
func (v view) Get(url string) (*http.Response, error) { return v.GetWithHeaders(url, nil) }

// GetWithHeaders reads a resource. It ignores the headers.
func (v view) GetWithHeaders(url string, _ map[string]string) (*http.Response, error) {
	a, err := v.c.do(v.ctx, request{method: http.MethodGet, path: url})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// Post returns errReadOnly.
func (v view) Post(string, any) (*http.Response, error) { return nil, errReadOnly }

// PostWithHeaders returns errReadOnly.
func (v view) PostWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// PostMultipart returns errReadOnly.
func (v view) PostMultipart(string, map[string]io.Reader) (*http.Response, error) {
	return nil, errReadOnly
}

// PostMultipartWithHeaders returns errReadOnly.
func (v view) PostMultipartWithHeaders(string, map[string]io.Reader, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// Patch returns errReadOnly.
func (v view) Patch(string, any) (*http.Response, error) { return nil, errReadOnly }

// PatchWithHeaders returns errReadOnly.
func (v view) PatchWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// Put returns errReadOnly.
func (v view) Put(string, any) (*http.Response, error) { return nil, errReadOnly }

// PutWithHeaders returns errReadOnly.
func (v view) PutWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}

// Delete returns errReadOnly.
func (v view) Delete(string) (*http.Response, error) { return nil, errReadOnly }

// DeleteWithHeaders returns errReadOnly.
func (v view) DeleteWithHeaders(string, map[string]string) (*http.Response, error) {
	return nil, errReadOnly
}
