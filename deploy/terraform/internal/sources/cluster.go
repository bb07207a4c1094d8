package sources

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/holdfast-metal/holdfast/client"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// cluster is the model of holdfast_cluster.
type cluster struct {
	ClusterID        types.String `tfsdk:"cluster_id"`
	Leader           types.String `tfsdk:"leader"`
	FeatureLevel     types.Int64  `tfsdk:"feature_level"`
	FailureTolerance types.Int64  `tfsdk:"failure_tolerance"`
	LastBackupAt     types.String `tfsdk:"last_backup_at"`
	Problem          types.String `tfsdk:"problem"`
	Peers            []peer       `tfsdk:"peers"`
}

type peer struct {
	ID       types.String `tfsdk:"id"`
	Suffrage types.String `tfsdk:"suffrage"`
	Alive    types.Bool   `tfsdk:"alive"`
	GRPCAddr types.String `tfsdk:"grpc_addr"`
	HTTPAddr types.String `tfsdk:"http_addr"`
	Version  types.String `tfsdk:"version"`
}

func clusterSource() kind[cluster] {
	return kind[cluster]{
		name: "cluster",
		schema: schema.Schema{
			Description: "The state of the cluster, from the view of the peer that answers.",
			Attributes: map[string]schema.Attribute{
				"cluster_id":        computed("Generated when the cluster formed; never changes"),
				"leader":            computed("Id of the leader; empty: none"),
				"feature_level":     schema.Int64Attribute{Computed: true, Description: "Understood by all peers"},
				"failure_tolerance": schema.Int64Attribute{Computed: true, Description: "Peers that may fail"},
				"last_backup_at":    computed("When the newest saved snapshot was taken, RFC 3339; null: never"),
				"problem":           computed("Why the answering peer cannot serve; empty: it can"),
				"peers": schema.ListNestedAttribute{Computed: true, Description: "The peers, by id",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"id":        computed("Its id"),
						"suffrage":  computed("voter, nonvoter, none"),
						"alive":     schema.BoolAttribute{Computed: true, Description: "From the view of gossip"},
						"grpc_addr": computed("host:port of its API"),
						"http_addr": computed("host:port of its HTTP APIs and dashboard"),
						"version":   computed("Of its binary"),
					}}},
			},
		},
		read: readCluster,
	}
}

func readCluster(ctx context.Context, c *client.Client, m *cluster) error {
	s, err := c.Cluster().GetClusterStatus(ctx, &holdfastv1.GetClusterStatusRequest{})
	if err != nil {
		return err
	}
	text := types.StringValue
	*m = cluster{
		ClusterID: text(s.GetClusterId()), Leader: text(s.GetLeader()), Problem: text(s.GetProblem()),
		FeatureLevel:     types.Int64Value(int64(s.GetFeatureLevel())),
		FailureTolerance: types.Int64Value(int64(s.GetFailureTolerance())), Peers: []peer{},
	}
	if at := s.GetLastBackupAt(); at != nil {
		m.LastBackupAt = text(at.AsTime().Format(time.RFC3339))
	}
	for _, p := range s.GetPeers() {
		m.Peers = append(m.Peers, peer{ID: text(p.GetId()), Suffrage: text(p.GetSuffrage()),
			Alive: types.BoolValue(p.GetAlive()), GRPCAddr: text(p.GetGrpcAddr()), HTTPAddr: text(p.GetHttpAddr()),
			Version: text(p.GetVersion())})
	}
	return nil
}
