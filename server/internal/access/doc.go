// Package access serves the resources that control access: tokens, secrets and the audit
// trail (docs/security.md).
//
// It must not authenticate or authorize callers: package auth has done so before. It
// returns no value of a secret, and none of its errors contains one.
package access
