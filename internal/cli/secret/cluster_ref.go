package secret

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/client"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/kinds"
	"github.com/holdfast-metal/holdfast/internal/cli/output"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// A registered cluster is a secret of type join with a kubeconfig and this name.
const (
	clusterPrefix = "cluster/"
	clusterType   = "join"
	kubeconfigKey = "kubeconfig"
	certKeyKey    = "certificate_key"
)

// ClusterRef returns the commands of references to other clusters.
func ClusterRef(a *app.App) *cobra.Command {
	return app.Parent(&cobra.Command{
		Use: "cluster-ref", Aliases: []string{"cluster-refs"},
		Short: "Manage Kubernetes clusters that machines join",
		Long: `Manage Kubernetes clusters that machines join. A machine's target_cluster_ref or a step's cluster_ref names one. A cluster is
registered with a kubeconfig, which is stored as an encrypted secret (cluster/NAME) and cannot be read back.`,
		Example: `  kubectl config view --raw --flatten --minify > prod.kubeconfig
  holdfast cluster-ref add prod --kubeconfig prod.kubeconfig
  holdfast machine update m-123 --cluster prod
  holdfast cluster-ref list`,
	}, clusterRefAdd(a), clusterRefList(a), clusterRefGet(a), clusterRefDelete(a))
}

func clusterRefName(s *holdfastv1.Secret) string {
	return strings.TrimPrefix(s.GetName(), clusterPrefix)
}

func isClusterRef(s *holdfastv1.Secret) bool {
	return strings.HasPrefix(s.GetName(), clusterPrefix) && s.GetType() == clusterType && slices.Contains(s.GetKeys(),
		kubeconfigKey)
}

func clusterRefKind() output.Kind[*holdfastv1.Secret] {
	return output.Kind[*holdfastv1.Secret]{
		Noun: "cluster", Arg: "NAME", List: "secrets",
		Name:   clusterRefName,
		Header: []string{"CLUSTER", "CONTROL PLANES", "POOLS", "VERSION", "UPDATED"},
		Wide:   []string{"BY", "CREATED", "KEY"},
		Row: func(s *holdfastv1.Secret, now time.Time) []any {
			planes := "no"
			if slices.Contains(s.GetKeys(), certKeyKey) {
				planes = "yes"
			}
			return []any{
				clusterRefName(s), planes, strings.Join(s.GetPools(), ","), s.GetVersion(),
				app.Age(now, s.GetUpdatedAt()),
				s.GetUpdatedBy(), app.Age(now, s.GetCreatedAt()), s.GetKeyId(),
			}
		},
		Page: func(ctx context.Context, c *client.Client, q output.Query) ([]*holdfastv1.Secret, string, error) {
			items, next, err := kinds.Secret().Page(ctx, c, q)
			return slices.DeleteFunc(items, func(s *holdfastv1.Secret) bool { return !isClusterRef(s) }), next, err
		},
		Get: getClusterRef,
	}
}

func clusterRefAdd(a *app.App) *cobra.Command {
	var o output.Flags
	var kubeconfig, certKey string
	var pools []string
	var allPools bool
	cmd := &cobra.Command{
		Use: "add NAME --kubeconfig FILE", DisableFlagsInUseLine: true, Args: app.Exactly("NAME"),
		Short: "Register a cluster, or replace its credentials",
		Long: `Register a cluster, or replace its credentials. The kubeconfig must be self-contained (kubectl config view --raw --flatten
--minify): peers read no files and run no programs that it names. docs/kubernetes.md lists the permissions its user needs.

Control planes join with the key that kubeadm init phase upload-certs --upload-certs prints; it is valid for two hours. With
--pool only machines of these pools can join the cluster.`,
		Example: `  holdfast cluster-ref add prod --kubeconfig prod.kubeconfig
  holdfast cluster-ref add prod --kubeconfig prod.kubeconfig --certificate-key-file /run/certificate-key
  holdfast cluster-ref add gpu --kubeconfig gpu.kubeconfig --pool gpu,gpu-eu`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if kubeconfig == "" {
				return app.Usagef("%s: --kubeconfig is missing: give a file, or - for standard input", cmd.CommandPath())
			}
			if allPools && len(pools) > 0 {
				return app.Usagef("%s: give --pool or --all-pools, not both", cmd.CommandPath())
			}
			values := map[string]string{}
			for key, path := range map[string]string{kubeconfigKey: kubeconfig, certKeyKey: certKey} {
				if path == "" {
					continue
				}
				text, err := readSecretFile(a, path)
				if err != nil {
					return fmt.Errorf("read %s of cluster %s: %w", key, args[0], err)
				}
				values[key] = text
			}
			return a.Online(func(ctx context.Context, c *client.Client, args []string) error {
				s, err := c.Secrets().PutSecret(ctx, &holdfastv1.PutSecretRequest{Name: clusterPrefix + args[0],
					Type: clusterType, Values: values, Pools: pools, AllPools: allPools})
				if err != nil {
					return app.Failed(err, "register cluster %s", args[0])
				}
				return output.PrintOne(a, &o, clusterRefKind(), s)
			})(cmd, args)
		},
	}
	o.Register(cmd, output.Shapes(clusterRefKind())...)
	f := cmd.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "`FILE` with the kubeconfig, - for standard input")
	f.StringVar(&certKey, "certificate-key-file", "", "`FILE` with the certificate key that control planes join with")
	f.StringSliceVar(&pools, "pool", nil, "restrict it to machines of these pools, comma-separated")
	f.BoolVar(&allPools, "all-pools", false, "allow it for machines of any pool again")
	return cmd
}

func clusterRefList(a *app.App) *cobra.Command {
	return output.ListCommand(a, output.Lister[*holdfastv1.Secret]{
		Short:   "List registered clusters by name",
		Example: "  holdfast cluster-ref list\n  holdfast cluster-ref list -o wide",
		Kind:    clusterRefKind(),
	})
}

func clusterRefGet(a *app.App) *cobra.Command {
	return output.GetCommand(a, output.Getter[*holdfastv1.Secret]{
		Short: "Show a registered cluster", Example: "  holdfast cluster-ref get prod",
		Kind: clusterRefKind(),
	})
}

func getClusterRef(ctx context.Context, c *client.Client, id string) (*holdfastv1.Secret, error) {
	return c.Secrets().GetSecret(ctx, &holdfastv1.GetSecretRequest{Name: clusterPrefix + id})
}

func clusterRefDelete(a *app.App) *cobra.Command {
	return output.EachCommand(a, output.Each[*holdfastv1.Secret]{
		Kind:    clusterRefKind(),
		Short:   "Delete clusters; machines in them get the condition InCustomerCluster unknown",
		Example: "  holdfast cluster-ref delete prod",
		Do: func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.Secrets().DeleteSecret(ctx, &holdfastv1.DeleteSecretRequest{Name: clusterPrefix + id})
			return err
		},
	})
}
