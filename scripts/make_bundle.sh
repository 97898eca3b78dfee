#!/bin/sh
# Packs what was built for a node that cannot build it: programs, GPU tests and benchmarks, and the shared libraries that such
# a node may lack. Left out: the C and C++ run time, MPI (it must be the site's), the driver and NVIDIA's libraries.
# The result is BUILD/bundle; BUILD/bundle/run COMMAND... starts one of its programs with these libraries.
set -eu
build=${BUILD:-build}
bundle=$build/bundle
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib"
for program in "$build"/bin/* "$build"/tests/gpu/*_test "$build"/tests/gpu/*_bench; do
    [ -x "$program" ] || continue
    strip -o "$bundle/bin/$(basename "$program")" "$program"
    ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r name path; do
    case $name in
    libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libresolv.so* | ld-linux* | libgcc_s.so* | libstdc++.so*) ;;
    libmpi* | libopen-rte* | libopen-pal* | libhwloc* | libevent* | libpmix* | libuc[pst]* | libfabric* | libpsm*) ;;
    libcuda* | libcublas* | libcudnn* | libnccl* | libnv*) ;;
    libopenblas* | libgfortran* | libquadmath*) ;; # large, and where MPI is they are too
    *) cp -L "$path" "$bundle/lib/$name" ;;
    esac
done
cat >"$bundle/run" <<'END'
#!/bin/sh
# Starts bin/PROGRAM of this bundle: run PROGRAM [ARGUMENTS]. Of the libraries packed here only those are used that this
# node lacks: links to them, for each node its own, or all where nothing can be written here.
here=$(dirname "$(readlink -f "$0")")
program=$1
shift
used=$here/used/$(uname -n)
if [ ! -d "$used" ]; then
    mkdir -p "$used.$$" 2>/dev/null || used=
fi
if [ -z "$used" ]; then
    used=$here/lib
elif [ ! -d "$used" ]; then
    known=$(ldconfig -p 2>/dev/null || /sbin/ldconfig -p)
    for library in "$here"/lib/*; do
        case $known in *"$(basename "$library") "*) ;; *) ln -s "$library" "$used.$$/" ;; esac
    done
    mv "$used.$$" "$used" 2>/dev/null || rm -rf "$used.$$"
fi
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$used exec "$here/bin/$program" "$@"
END
chmod +x "$bundle/run"
# For scripts that look for programs in a folder.
mkdir "$bundle/programs"
for program in trireme trireme-data; do
    # shellcheck disable=SC2016 # the script that is written expands it
    printf '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/../run" %s "$@"\n' "$program" >"$bundle/programs/$program"
    chmod +x "$bundle/programs/$program"
done
echo "bundle      $bundle, $(du -sh "$bundle" | cut -f 1)"
