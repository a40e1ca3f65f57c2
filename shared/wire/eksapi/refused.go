package eksapi

import (
	"context"
	"strings"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// Why Berth refuses operations of the EKS API.
const (
	noControlPlane = "a cluster here is an ECS cluster, which has no Kubernetes control plane"
	ecsClusters    = "clusters are created, changed and deleted through the ECS API"
	noAddons       = "container instances run no Kubernetes add-ons"
	noFargate      = "tasks run on container instances, not on Fargate"
	noSubscription = "container instances need no subscription of EKS Anywhere"
)

// refusedOperations are the operations of the EKS API that Berth does not serve, one on each line:
// name, method and path. They stand below the reason.
var refusedOperations = []struct{ reason, operations string }{
	{noControlPlane, `
ActivateCertificateAuthority POST /clusters/{c}/certificate-authorities/{}/activate
AssociateAccessPolicy POST /clusters/{c}/access-entries/{}/access-policies
AssociateEncryptionConfig POST /clusters/{c}/encryption-config/associate
AssociateIdentityProviderConfig POST /clusters/{c}/identity-provider-configs/associate
CreateAccessEntry POST /clusters/{c}/access-entries
CreateCapability POST /clusters/{c}/capabilities
CreateCertificateAuthority POST /clusters/{c}/certificate-authorities
CreatePodIdentityAssociation POST /clusters/{c}/pod-identity-associations
DeleteAccessEntry DELETE /clusters/{c}/access-entries/{}
DeleteCapability DELETE /clusters/{c}/capabilities/{}
DeleteCertificateAuthority DELETE /clusters/{c}/certificate-authorities/{}
DeletePodIdentityAssociation DELETE /clusters/{c}/pod-identity-associations/{}
DescribeAccessEntry GET /clusters/{c}/access-entries/{}
DescribeCapability GET /clusters/{c}/capabilities/{}
DescribeCertificateAuthority GET /clusters/{c}/certificate-authorities/{}
DescribeClusterVersions GET /cluster-versions
DescribeIdentityProviderConfig POST /clusters/{c}/identity-provider-configs/describe
DescribeInsight GET /clusters/{c}/insights/{}
DescribeInsightsRefresh GET /clusters/{c}/insights-refresh
DescribePodIdentityAssociation GET /clusters/{c}/pod-identity-associations/{}
DisassociateAccessPolicy DELETE /clusters/{c}/access-entries/{}/access-policies/{}
DisassociateIdentityProviderConfig POST /clusters/{c}/identity-provider-configs/disassociate
ListAccessEntries GET /clusters/{c}/access-entries
ListAccessPolicies GET /access-policies
ListAssociatedAccessPolicies GET /clusters/{c}/access-entries/{}/access-policies
ListCapabilities GET /clusters/{c}/capabilities
ListCertificateAuthorities GET /clusters/{c}/certificate-authorities
ListIdentityProviderConfigs GET /clusters/{c}/identity-provider-configs
ListInsights POST /clusters/{c}/insights
ListPodIdentityAssociations GET /clusters/{c}/pod-identity-associations
StartInsightsRefresh POST /clusters/{c}/insights-refresh
UpdateAccessEntry POST /clusters/{c}/access-entries/{}
UpdateCapability POST /clusters/{c}/capabilities/{}
UpdatePodIdentityAssociation POST /clusters/{c}/pod-identity-associations/{}`},
	{ecsClusters, `
CreateCluster POST /clusters
DeleteCluster DELETE /clusters/{c}
DeregisterCluster DELETE /cluster-registrations/{c}
RegisterCluster POST /cluster-registrations
UpdateClusterConfig POST /clusters/{c}/update-config
UpdateClusterVersion POST /clusters/{c}/updates`},
	{noAddons, `
CreateAddon POST /clusters/{c}/addons
DeleteAddon DELETE /clusters/{c}/addons/{}
DescribeAddon GET /clusters/{c}/addons/{}
DescribeAddonConfiguration GET /addons/configuration-schemas
DescribeAddonVersions GET /addons/supported-versions
ListAddons GET /clusters/{c}/addons
UpdateAddon POST /clusters/{c}/addons/{}/update`},
	{noFargate, `
CreateFargateProfile POST /clusters/{c}/fargate-profiles
DeleteFargateProfile DELETE /clusters/{c}/fargate-profiles/{}
DescribeFargateProfile GET /clusters/{c}/fargate-profiles/{}
ListFargateProfiles GET /clusters/{c}/fargate-profiles`},
	{noSubscription, `
CreateEksAnywhereSubscription POST /eks-anywhere-subscriptions
DeleteEksAnywhereSubscription DELETE /eks-anywhere-subscriptions/{}
DescribeEksAnywhereSubscription GET /eks-anywhere-subscriptions/{}
ListEksAnywhereSubscriptions GET /eks-anywhere-subscriptions
UpdateEksAnywhereSubscription POST /eks-anywhere-subscriptions/{}`},
}

// refusedRoutes returns the routes of the operations that Berth refuses by name.
func refusedRoutes() (out []route) {
	for name, r := range RefusedOperations() {
		refusal := cluster.Errorf(cluster.CodeInvalidRequest, "%s is not supported: %s.", name, r.Reason)
		out = append(out, route{name, r.Method, r.Path, func(context.Context, *call) (any, error) {
			return nil, refusal
		}})
	}
	return out
}

// An Endpoint is where an operation is, and why it is refused; no reason if it is served.
type Endpoint struct{ Method, Path, Reason string }

// RefusedOperations returns the operations of the EKS API that Berth refuses, by name.
func RefusedOperations() map[string]Endpoint {
	out := map[string]Endpoint{}
	for _, group := range refusedOperations {
		for line := range strings.Lines(strings.TrimSpace(group.operations)) {
			f := strings.Fields(line)
			out[f[0]] = Endpoint{f[1], f[2], group.reason}
		}
	}
	return out
}

// Operations returns the operations that Berth serves, by name.
func Operations() map[string]Endpoint {
	out := map[string]Endpoint{}
	for _, r := range new(server).routes() {
		out[r.name] = Endpoint{Method: r.method, Path: r.path}
	}
	return out
}

// Why Berth refuses members.
const (
	groupSays  = "what instances are made of, the Auto Scaling group and its launch template say"
	onlySizes  = "only labels, taints, scalingConfig and updateConfig can be changed"
	onlyGroups = "there are updates of node groups only"
)

// refusedMembers are the members that operations refuse, with the reason.
var refusedMembers = map[string]map[string]string{
	"CreateNodegroup": {
		"remoteAccess":     "a launch template of your own says who may log in",
		"nodeRepairConfig": "the Auto Scaling group replaces unhealthy instances",
		"warmPoolConfig":   "an Auto Scaling group of your own can have a warm pool",
	},
	"UpdateNodegroupConfig": {
		"nodeRepairConfig": onlySizes, "warmPoolConfig": onlySizes,
	},
	"DescribeUpdate": {"addonName": onlyGroups, "capabilityName": onlyGroups},
	"ListUpdates":    {"addonName": onlyGroups, "capabilityName": onlyGroups},
}

// RefusedMembers returns the members that operations refuse by name, with the reason.
func RefusedMembers() map[string]map[string]string { return refusedMembers }

// unsupported returns the InvalidParameterException for a member that Berth does not serve.
func unsupported(operation, member string) error {
	return input.Invalid("%s is not supported: %s.", member, refusedMembers[operation][member])
}
