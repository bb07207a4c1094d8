package clitest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

func fixtureSecrets() []*holdfastv1.Secret {
	return []*holdfastv1.Secret{
		{Name: "bmc/r7", Type: "bmc", Keys: []string{"password", "username"}, KeyId: "2026-11", Version: 3,
			CreatedAt: Ago(90 * 24 * time.Hour), UpdatedAt: Ago(time.Hour),
			UpdatedBy: "user:alice", UsedBy: []string{"m-123", "m-124"}, Uses: 12},
		{Name: "cluster/gpu", Type: "join", Keys: []string{"certificate_key", "kubeconfig"}, KeyId: "2026-11", Version: 2,
			Pools: []string{"gpu"}, CreatedAt: Ago(24 * time.Hour), UpdatedAt: Ago(time.Minute),
			UpdatedBy: "user:alice"},
		{Name: "cluster/prod", Type: "join", Keys: []string{"kubeconfig"}, KeyId: "2026-11", Version: 1,
			CreatedAt: Ago(24 * time.Hour), UpdatedAt: Ago(24 * time.Hour), UpdatedBy: "user:bob"},
		{Name: "join", Type: "join", Keys: []string{"token"}, KeyId: "3ba3f5f4", Version: 1, Pools: []string{"cpu", "gpu"},
			CreatedAt: Ago(time.Minute), UpdatedAt: Ago(time.Minute), UpdatedBy: "token:ci"},
	}
}

func (f *Cluster) PutSecret(_ context.Context, r *holdfastv1.PutSecretRequest) (*holdfastv1.Secret, error) {
	return &holdfastv1.Secret{Name: r.GetName(), Type: r.GetType(), Keys: []string{"password", "username"},
		KeyId: "2026-11", Version: 1, UpdatedAt: Ago(0)}, nil
}

func (f *Cluster) GetSecret(_ context.Context, r *holdfastv1.GetSecretRequest) (*holdfastv1.Secret, error) {
	for _, s := range fixtureSecrets() {
		if s.GetName() == r.GetName() {
			return s, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "secret %q not found", r.GetName())
}

func (f *Cluster) ListSecrets(
	context.Context, *holdfastv1.ListSecretsRequest,
) (*holdfastv1.ListSecretsResponse, error) {
	return &holdfastv1.ListSecretsResponse{Secrets: fixtureSecrets()}, nil
}

func (f *Cluster) DeleteSecret(
	context.Context, *holdfastv1.DeleteSecretRequest,
) (*holdfastv1.DeleteSecretResponse, error) {
	return &holdfastv1.DeleteSecretResponse{}, nil
}

func (f *Cluster) RotateSecrets(
	context.Context, *holdfastv1.RotateSecretsRequest,
) (*holdfastv1.RotateSecretsResponse, error) {
	return &holdfastv1.RotateSecretsResponse{KeyId: "2026-11", Resealed: 7}, nil
}
