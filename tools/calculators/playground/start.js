// Last: all views are there. The cluster comes when the page is already in use.
const unpacked = id => {
  const packed = Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
};
(async () => {
  core = await lockstepCore({ wasmBinary: await unpacked('core_wasm') });
  start();
  cluster = await lockstepCluster({ wasmBinary: await unpacked('cluster_wasm') });
  refresh();
})().catch(error => { $('wait').textContent = `The page cannot start here: ${error}. It needs a browser of 2023 or later, with WebAssembly.`; });
