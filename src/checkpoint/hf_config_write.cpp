// Writes config.json, with the keys that every version of transformers reads.
#include <utility>
#include <vector>

#include "checkpoint/hf_config.hpp"
#include "trireme/base/json.hpp"

namespace trireme::checkpoint {
namespace {

// An object of one line a key.
class Object {
  public:
    void add(const char* key, std::string value) { members_.emplace_back(key, std::move(value)); }
    void add_text(const char* key, std::string_view value) { add(key, json_string(value)); }
    void add_whole(const char* key, std::int64_t value) { add(key, concat(value)); }
    void add_number(const char* key, double value) { add(key, json_number(value)); }
    void add_flag(const char* key, bool value) { add(key, value ? "true" : "false"); }
    std::string text(const std::string& indent = "") const {
        std::string result = "{";
        for (const auto& [key, value] : members_)
            result += concat(result.size() > 1 ? "," : "", "\n", indent, "  ", json_string(key), ": ", value);
        return concat(result, "\n", indent, "}");
    }

  private:
    std::vector<std::pair<std::string, std::string>> members_;
};

std::string_view type_name(storage::FloatType type) {
    switch (type) {
    case storage::FloatType::f16:
        return "float16";
    case storage::FloatType::bf16:
        return "bfloat16";
    case storage::FloatType::f64:
        return "float64";
    default:
        return "float32";
    }
}

void add_gpt2(Object& object, const catalogue::ModelConfig& model) {
    object.add_text("model_type", "gpt2");
    object.add("architectures", "[\"GPT2LMHeadModel\"]");
    object.add_whole("n_layer", model.layers);
    object.add_whole("n_embd", model.hidden);
    object.add_whole("n_head", model.heads);
    object.add_whole("n_inner", model.ffn);
    object.add_whole("n_positions", model.max_positions);
    object.add_text("activation_function", "gelu_new");
    object.add_number("layer_norm_epsilon", model.norm_epsilon);
    object.add_number("resid_pdrop", model.hidden_dropout);
    object.add_number("embd_pdrop", model.hidden_dropout);
    object.add_number("attn_pdrop", model.attention_dropout);
}

void add_llama(Object& object, HfFamily family, const catalogue::ModelConfig& model) {
    const bool qwen = family == HfFamily::qwen2;
    object.add_text("model_type", qwen ? "qwen2" : "llama");
    object.add("architectures", qwen ? "[\"Qwen2ForCausalLM\"]" : "[\"LlamaForCausalLM\"]");
    object.add_whole("num_hidden_layers", model.layers);
    object.add_whole("hidden_size", model.hidden);
    object.add_whole("intermediate_size", model.ffn);
    object.add_whole("num_attention_heads", model.heads);
    object.add_whole("num_key_value_heads", model.groups);
    object.add_whole("head_dim", model.head_dim);
    object.add_whole("max_position_embeddings", model.max_positions);
    object.add_text("hidden_act", "silu");
    object.add_number("rms_norm_eps", model.norm_epsilon);
    object.add_number("attention_dropout", model.attention_dropout);
    object.add_number("rope_theta", model.rotary.base);
    if (model.rotary.scaling) {
        Object scaling;
        scaling.add_text("rope_type", "llama3");
        scaling.add_number("factor", model.rotary.scaling->factor);
        scaling.add_number("low_freq_factor", model.rotary.scaling->low_frequency_factor);
        scaling.add_number("high_freq_factor", model.rotary.scaling->high_frequency_factor);
        scaling.add_whole("original_max_position_embeddings", model.rotary.scaling->original_positions);
        object.add("rope_scaling", scaling.text("  "));
    } else {
        object.add("rope_scaling", "null");
    }
    if (qwen) {
        object.add_flag("use_sliding_window", false);
        return;
    }
    object.add_flag("attention_bias", model.biases == catalogue::Biases::all);
    object.add_flag("mlp_bias", model.biases == catalogue::Biases::all);
}

} // namespace

HfFamily family_of(const catalogue::ModelConfig& model) {
    using namespace catalogue;
    const bool gpt2 = model.positions == Positions::learned &&
                      model.normalisation == Normalisation::layer_norm &&
                      model.activation == Activation::gelu && model.biases == Biases::all &&
                      model.groups == model.heads && model.heads * model.head_dim == model.hidden;
    if (gpt2)
        return HfFamily::gpt2;
    const bool llama = model.positions == Positions::rotary &&
                       model.normalisation == Normalisation::rms_norm &&
                       model.activation == Activation::swiglu && model.rotary.percent == 1;
    if (llama)
        return model.biases == Biases::query_key_value ? HfFamily::qwen2 : HfFamily::llama;
    throw Error(ErrorCategory::checkpoint,
                "this model has neither the shape of GPT-2 nor that of Llama or Qwen 2.5",
                {"GPT-2: learned positions, LayerNorm, GELU, all biases, heads x head width = hidden size",
                 "Llama, Qwen 2.5: rope on whole heads, RMSNorm, SwiGLU",
                 "try: trireme checkpoint inspect shows its options; other shapes cannot be exported"});
}

std::string hf_config_text(HfFamily family, const catalogue::ModelConfig& model, storage::FloatType type,
                           std::optional<std::int64_t> end_of_document) {
    Object object;
    if (family == HfFamily::gpt2)
        add_gpt2(object, model);
    else
        add_llama(object, family, model);
    object.add_whole("vocab_size", model.vocabulary);
    object.add_number("initializer_range", model.init_std);
    object.add_flag("tie_word_embeddings", model.output_layer == catalogue::OutputLayer::tied);
    object.add("bos_token_id", end_of_document ? concat(*end_of_document) : "null");
    object.add("eos_token_id", end_of_document ? concat(*end_of_document) : "null");
    object.add_text("torch_dtype", type_name(type));
    return object.text() + "\n";
}

} // namespace trireme::checkpoint
