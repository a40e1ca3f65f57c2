// Package definition makes a cluster match a Service Fabric description of one (P16).
//
// In comes what package servicefabric read from a ClusterManifest.xml or ClusterConfig.json.
// [PlanChanges] compares it with a cluster of a running Berth and changes nothing;
// [Plan.ApplyChanges] makes the changes. Both only call Berth's public operations. `berth import`
// is the only caller.
//
// A plan can be applied again after a failure: its steps are ordered so that each leaves the
// cluster valid, and a new comparison finds only what is still missing.
//
// Start reading at [PlanChanges].
package definition
