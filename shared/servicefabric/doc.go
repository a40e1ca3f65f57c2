// Package servicefabric reads Service Fabric's own descriptions of a cluster: ClusterManifest.xml
// and ClusterConfig.json (P16).
//
// [Read] takes the text of either and returns a [Cluster]: its nodes with their fault and upgrade
// domains, and a cluster.Configuration with the node types, capacities and the settings of the
// Cluster Resource Manager.
//
// Both formats are read into one builder (builder.go), which checks each part and remembers its
// line. So every mistake is reported with the line that it is on. Settings that Berth does not have
// are listed, rather than dropped in silence.
//
// The command "berth import" calls it. It reads no files and calls no API.
package servicefabric
