// Command kubernetes-merge-keys prints, as JSON, how kubectl apply merges the fields of Kubernetes' objects: the
// patchStrategy and patchMergeKey tags of the Go structs of k8s.io/api, for every kind that wharfinger stores.
//
// The result is src/wharfinger/placement/applying/merge_keys.json. `make kubernetes-merge-keys` writes it anew. For another
// Kubernetes release, change the versions in go.mod first: go get k8s.io/api@v0.37.0 k8s.io/apimachinery@v0.37.0
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const module = "k8s.io/api"

// versions registers the API versions whose merge keys are listed.
var versions = runtime.NewSchemeBuilder(
	corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, schedulingv1.AddToScheme,
	schedulingv1alpha2.AddToScheme, resourcev1.AddToScheme, storagev1.AddToScheme, nodev1.AddToScheme, networkingv1.AddToScheme,
	autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, rbacv1.AddToScheme,
)

// kinds are those of wharfinger.objects.documents.kinds; a test compares them.
var kinds = []string{
	"Pod", "Node", "Namespace", "Service", "ConfigMap", "Secret", "ServiceAccount", "ReplicationController",
	"PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange", "ReplicaSet", "Deployment", "StatefulSet",
	"DaemonSet", "Job", "CronJob", "PodDisruptionBudget", "PriorityClass", "PodGroup", "DeviceClass", "StorageClass", "CSINode",
	"CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "RuntimeClass", "Ingress", "NetworkPolicy",
	"HorizontalPodAutoscaler", "Role", "RoleBinding",
	"ClusterRole", "ClusterRoleBinding",
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// field is how one field is merged, and the type of its value or of the entries of its list.
type field struct {
	Type     string `json:"type,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	Key      string `json:"key,omitempty"`
}

type catalog struct {
	Kinds map[string]string           // API group and kind -> type
	Types map[string]map[string]field // only types and fields that matter when objects are merged
}

func main() {
	found := catalog{Kinds: map[string]string{}, Types: map[string]map[string]field{}}
	scheme := runtime.NewScheme()
	if err := versions.AddToScheme(scheme); err != nil {
		fail(err)
	}
	all := map[string][]string{}
	for kind, structure := range scheme.AllKnownTypes() {
		if slices.Contains(kinds, kind.Kind) && kind.Version != runtime.APIVersionInternal {
			name := found.add(structure)
			delete(found.Types[name], "status") // apply never writes it
			key := kind.Group + "/" + kind.Kind
			all[key] = append(all[key], name)
		}
	}
	found.prune()
	for key, names := range all {
		found.Kinds[key] = slices.Max(names)
		for _, name := range names {
			if !maps.Equal(found.Types[name], found.Types[found.Kinds[key]]) {
				fail(fmt.Errorf("the versions of %s are merged in different ways: %v", key, names))
			}
		}
	}
	found.dropUnused()
	fmt.Printf("{\"origin\": %s,\n\"kinds\": {\n%s},\n\"types\": {\n%s}}\n",
		text(origin()), lines(found.Kinds), lines(found.Types))
}

// lines is a JSON object's content, one line an entry, so that a new release shows as a short difference.
func lines[V any](entries map[string]V) string {
	var written []string
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		written = append(written, text(name)+": "+text(entries[name]))
	}
	return strings.Join(written, ",\n") + "\n"
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		fail(err)
	}
	return string(encoded)
}

// add describes a type and all types below it, and returns its name. The name is empty for what has no fields:
// scalars, maps with free keys, and types that decode themselves, such as quantities and times.
func (c *catalog) add(t reflect.Type) string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(unmarshaler) {
		return ""
	}
	name := t.PkgPath()[strings.LastIndex(t.PkgPath()[:strings.LastIndex(t.PkgPath(), "/")], "/")+1:] + "." + t.Name()
	if _, known := c.Types[name]; !known {
		c.Types[name] = map[string]field{}
		c.addFields(c.Types[name], t)
	}
	return name
}

func (c *catalog) addFields(into map[string]field, t reflect.Type) {
	for i := range t.NumField() {
		one := t.Field(i)
		tag, options, _ := strings.Cut(one.Tag.Get("json"), ",")
		switch {
		case tag == "-" || !one.IsExported():
		case tag == "" && (one.Anonymous || strings.Contains(options, "inline")):
			c.addFields(into, one.Type)
		case tag == "":
			fail(fmt.Errorf("%v.%s has no json name", t, one.Name))
		default:
			into[tag] = field{c.add(one.Type), one.Tag.Get("patchStrategy"), one.Tag.Get("patchMergeKey")}
		}
	}
}

// prune drops fields that are merged like any JSON: without a strategy, and with none below them.
func (c *catalog) prune() {
	for changed := true; changed; {
		changed = false
		for _, fields := range c.Types {
			for name, one := range fields {
				if one.Type != "" && len(c.Types[one.Type]) == 0 {
					one.Type, changed = "", true
					fields[name] = one
				}
				if one.Type == "" && one.Strategy == "" {
					delete(fields, name)
					changed = true
				}
			}
		}
	}
}

// dropUnused keeps the types that some kind reaches.
func (c *catalog) dropUnused() {
	used := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if name == "" || used[name] {
			return
		}
		used[name] = true
		for _, one := range c.Types[name] {
			visit(one.Type)
		}
	}
	for _, name := range c.Kinds {
		visit(name)
	}
	maps.DeleteFunc(c.Types, func(name string, _ map[string]field) bool { return !used[name] })
}

// origin names the module that the structs come from, with its checksum as in go.sum.
func origin() map[string]string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return map[string]string{"module": module, "version": dependency.Version, "sum": dependency.Sum}
		}
	}
	fail(fmt.Errorf("%s is not among the modules of this build", module))
	return nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "kubernetes-merge-keys:", err)
	os.Exit(1)
}
